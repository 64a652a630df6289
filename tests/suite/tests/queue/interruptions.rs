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
    sandbox.assert_clean(Duration::from_secs(1));
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
        let mut later: Vec<Running> = waiters.drain(..2).collect();
        let ends: Vec<Duration> = waiters
            .into_iter()
            .map(|waiter| waiter.wait().exits(0).elapsed)
            .collect();
        println!(
            "stopped {stopped:?}: the last one of the others was over after {:?}",
            ends.last()
        );
        for waiter in &later {
            waiter.signal(Signal::SIGCONT);
        }
        for waiter in later.drain(..) {
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
    for command in [
        sandbox.words("getgpu --no-reserve"),
        sandbox.words("cudawrap -- true"),
    ] {
        let outcome = command.run();
        outcome.exits(0).says(&[]);
        assert!(
            outcome.elapsed > Duration::from_secs(1),
            "it looks whether somebody takes it: {outcome:?}"
        );
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
    #[rustfmt::skip]
    let signals = [
        Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT,
    ];
    for signal in signals {
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
    sandbox.assert_clean(Duration::from_secs(1));
}

#[test]
fn the_wait_limit_holds_and_both_ends_are_reported() {
    let sandbox = Sandbox::new("h200x1");
    let first = blocker(&sandbox);
    let outcome = sandbox.ask("--wait=0.3");
    let line = "waiting for a device: 1 of 1 in use, 0 ahead of you";
    outcome
        .exits(1)
        .prints("")
        .mentions(&format!("getgpu: {line}"));
    outcome.mentions("getgpu: no free device: 1 of 1 in use (");
    assert!(outcome.elapsed >= Duration::from_millis(300), "{outcome:?}");
    let outcome = sandbox.words("cudawrap -w 0.3 -- true").run();
    outcome.exits(75).mentions(&format!("cudawrap: {line}"));
    let link = wrap(&sandbox, "opt", "app", "sim-cuda");
    let linked = |time| sandbox.command(&link).env("CUDAWRAP_WAIT", time).run();
    linked("0.2")
        .exits(75)
        .mentions("no free device: 1 of 1 in use");
    linked("abc").refuses(125, "CUDAWRAP_WAIT: `abc` is not a time");
    let quiet = sandbox.words("getgpu --wait -q");
    let waiters = line_up(&sandbox, vec![leased(&sandbox, "a", "0"), quiet]);
    end(first);
    let mut waiters = waiters.into_iter();
    let said = waiters.next().unwrap().wait();
    said.exits(0).mentions("cudawrap: waited 00:0");
    assert_eq!(
        said.stderr.lines().count(),
        2,
        "one line at the start and one at the end: {said:?}"
    );
    waiters.next().unwrap().wait().exits(0).says(&[]);
    // Who need not wait says nothing.
    sandbox.ask("--release-all").exits(0);
    sandbox
        .words("cudawrap --wait -- true")
        .run()
        .exits(0)
        .says(&[]);
}

#[test]
fn on_a_terminal_one_line_is_rewritten() {
    if skip::lacks(&[skip::Need::Tool("script")]) {
        return;
    }
    let sandbox = Sandbox::new("h200x1");
    let first = blocker(&sandbox);
    let line = "cudawrap --wait -- sh -c 'echo runs; :'";
    let terminal = sandbox
        .words("script -qec")
        .args([line, "/dev/null"])
        .spawn();
    wait::until("it was written twice", || {
        let text = terminal.stdout();
        text.matches("in use, 0 ahead of you, 00:0").count() >= 2
    });
    end(first);
    let shown = terminal.wait().output();
    assert!(
        shown.starts_with(
            "\rcudawrap: waiting for a device: 1 of 1 in use, 0 ahead of you, 00:00, longest held for "
        ),
        "{shown:?}"
    );
    assert!(
        shown.ends_with("\r\x1b[Kruns\r\n"),
        "the line is taken away: {shown:?}"
    );
}
