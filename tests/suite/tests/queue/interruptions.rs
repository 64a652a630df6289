//! A waiter that is killed, stopped or interrupted delays nobody and leaves nothing. The
//! time limit holds, and both ends of a wait are reported.

use std::time::Duration;

use getgpu_tests::listing;
use getgpu_tests::wrapped::wrap;
use harness::{Running, Sandbox, Signal, skip, wait};

use crate::waiters::{blocker, end, leased, line_up, order, several};

#[test]
fn a_killed_waiter_delays_nobody() {
    let sandbox = Sandbox::new("h200x1");
    let first = blocker(&sandbox);
    let mut waiters = several(&sandbox, 6, "0.05");
    for place in [4, 2, 0] {
        end(waiters.remove(place));
    }
    wait::until("three are left", || listing::waiting(&sandbox) == 3);
    end(first);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(order(&sandbox), ["1", "3", "5"]);
    sandbox.assert_clean();
}

#[test]
fn a_stopped_waiter_delays_nobody() {
    for stopped in [&[0][..], &[1], &[0, 1]] {
        let sandbox = Sandbox::new("h200x1");
        let first = blocker(&sandbox);
        let mut waiters = several(&sandbox, 4, "0.05");
        for place in stopped {
            waiters[*place].signal(Signal::SIGSTOP);
        }
        end(first);
        let later: Vec<Running> = waiters.drain(..2).collect();
        for waiter in waiters {
            let ended = waiter.wait().exits(0).elapsed;
            println!("stopped {stopped:?}: another waiter ended after {ended:?}");
        }
        for waiter in &later {
            waiter.signal(Signal::SIGCONT);
        }
        for waiter in later {
            waiter.wait().exits(0);
        }
        sandbox.assert_exclusive();
        assert_eq!(sandbox.runs().len(), 5);
    }
}

#[test]
fn stopped_waiters_keep_nobody_from_a_free_device() {
    let sandbox = Sandbox::new("mig4");
    let hold: Vec<String> = (0..4).map(|_| sandbox.line("--for=600")).collect();
    let mut waiters = several(&sandbox, 6, "0.05");
    for waiter in &waiters[..5] {
        waiter.signal(Signal::SIGSTOP);
    }
    sandbox.getgpu(["--release", &hold[0]]).run().exits(0);
    // The sixth is far behind, and takes it in the end; until then so does anybody.
    waiters.pop().unwrap().wait().exits(0);
    for words in ["getgpu --no-reserve", "cudawrap -- true"] {
        let outcome = sandbox.words(words).run();
        let looked = outcome.exits(0).says(&[]).elapsed > Duration::from_secs(1);
        assert!(looked, "whether somebody takes it: {outcome:?}");
    }
    // One that waits has its place before it looks.
    line_up(&sandbox, vec![leased(&sandbox, "later", "0")])
        .into_iter()
        .for_each(end);
    for waiter in waiters {
        waiter.signal(Signal::SIGCONT);
        waiter.wait().exits(0);
    }
    sandbox.assert_exclusive();
}

#[test]
fn an_interrupted_waiter_leaves_nothing() {
    let sandbox = Sandbox::new("h200x1");
    let first = blocker(&sandbox);
    let link = wrap(&sandbox, "opt", "app", "sim-cuda");
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        let commands = vec![
            sandbox.words("getgpu --wait"),
            leased(&sandbox, "x", "1"),
            sandbox.command(&link).env("CUDAWRAP_WAIT", "forever"),
        ];
        for running in line_up(&sandbox, commands) {
            running.signal(signal);
            let outcome = running.wait();
            assert_eq!(outcome.signal(), Some(signal as i32), "{outcome:?}");
        }
        assert_eq!(listing::waiting(&sandbox), 0);
        assert_eq!(sandbox.holders().len(), 0);
        // The blocker, and no helper of those who are gone.
        wait::until("only the blocker is left", || {
            sandbox.processes().len() == 1
        });
    }
    end(first);
    sandbox.assert_clean();
}

#[test]
fn the_wait_limit_holds_and_both_ends_are_reported() {
    let sandbox = Sandbox::new("h200x1");
    let first = blocker(&sandbox);
    let outcome = sandbox.ask("--wait=0.3");
    let line = "waiting for a device: 1 of 1 in use, 0 ahead of you";
    outcome.exits(1).prints("");
    outcome.mentions(&format!("getgpu: {line}"));
    outcome.mentions("getgpu: no free device: 1 of 1 in use (");
    assert!(outcome.elapsed >= Duration::from_millis(300), "{outcome:?}");
    let outcome = sandbox.words("cudawrap -w 0.3 -- true").run();
    outcome.exits(75).mentions(&format!("cudawrap: {line}"));
    let link = wrap(&sandbox, "opt", "app", "sim-cuda");
    let linked = |time| sandbox.command(&link).env("CUDAWRAP_WAIT", time).run();
    let none = "no free device: 1 of 1 in use";
    linked("0.2").exits(75).mentions(none);
    let at_once = sandbox.command(&link).run();
    at_once
        .exits(75)
        .mentions("with CUDAWRAP_WAIT=10m a program waits");
    linked("abc").refuses(125, "CUDAWRAP_WAIT: `abc` is not a time");
    let quiet = sandbox.words("getgpu --wait -q");
    let waiters = line_up(&sandbox, vec![leased(&sandbox, "a", "0"), quiet]);
    end(first);
    let mut waiters = waiters.into_iter();
    let said = waiters.next().unwrap().wait();
    said.exits(0).mentions("cudawrap: waited 00:0");
    let lines = said.stderr.lines().count();
    assert_eq!(lines, 2, "one at the start and one at the end: {said:?}");
    waiters.next().unwrap().wait().exits(0).says(&[]);
    // Who need not wait says nothing.
    sandbox.ask("--release-all").exits(0);
    let at_once = sandbox.words("cudawrap --wait -- true").run();
    at_once.exits(0).says(&[]);
}

#[test]
fn on_a_terminal_one_line_is_rewritten() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Tool("script")], "h200x1", "") else {
        return;
    };
    let first = blocker(&sandbox);
    let line = "cudawrap --wait -- sh -c 'echo runs; :'";
    let terminal = sandbox.words("script -qec").args([line, "/dev/null"]);
    let terminal = terminal.spawn();
    let line = "waiting for a device: 1 of 1 in use, 0 ahead of you, 00:0";
    wait::until("it was written twice", || {
        terminal.stdout().matches(line).count() >= 2
    });
    end(first);
    let shown = terminal.wait().output();
    let begins = format!("\rcudawrap: {line}0, longest held for ");
    assert!(shown.starts_with(&begins), "{shown:?}");
    let ends = "\r\x1b[Kruns\r\n";
    assert!(shown.ends_with(ends), "the line is taken away: {shown:?}");
}
