//! A waiter that is killed, stopped or interrupted delays nobody and leaves nothing. The
//! time limit holds, and both ends of a wait are reported.

use std::time::Duration;

use getgpu_tests::listing;
use harness::{Running, Sandbox, Signal, skip, wait};

use crate::waiters::{blocker, end, leased, line_up, order};

#[test]
fn a_killed_waiter_delays_nobody() {
    let sandbox = Sandbox::new("h200x1");
    let first = blocker(&sandbox);
    let mut waiters = line_up(
        &sandbox,
        (0..6)
            .map(|n| leased(&sandbox, &n.to_string(), "0.05"))
            .collect(),
    );
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
        let mut waiters = line_up(
            &sandbox,
            (0..4)
                .map(|n| leased(&sandbox, &n.to_string(), "0.05"))
                .collect(),
        );
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
        assert_eq!(sandbox.folder().runs().unwrap().len(), 5);
    }
}

#[test]
fn stopped_waiters_keep_nobody_from_a_free_device() {
    let sandbox = Sandbox::new("mig4");
    let hold: Vec<String> = (0..4)
        .map(|_| sandbox.getgpu(["--for=600"]).run().line())
        .collect();
    let waiters = line_up(
        &sandbox,
        (0..6)
            .map(|n| leased(&sandbox, &n.to_string(), "0.05"))
            .collect(),
    );
    waiters
        .iter()
        .take(5)
        .for_each(|waiter| waiter.signal(Signal::SIGSTOP));
    sandbox.getgpu(["--release", &hold[0]]).run().exits(0);
    // The sixth is far behind, and takes it in the end; until then so does anybody.
    let mut waiters: Vec<Running> = waiters.into_iter().collect();
    waiters.pop().unwrap().wait().exits(0);
    for command in [
        sandbox.getgpu(["--no-reserve"]),
        sandbox.command("cudawrap").args(["--", "true"]),
    ] {
        let outcome = command.run();
        outcome.exits(0).says(&[]);
        assert!(
            outcome.elapsed > Duration::from_secs(1),
            "it looks whether somebody takes it: {outcome:?}"
        );
    }
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
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        let link = getgpu_tests::wrapped::wrap(
            &sandbox,
            &format!("opt{}", signal as i32),
            "app",
            "sim-cuda",
        );
        let commands = vec![
            sandbox.getgpu(["--wait"]),
            leased(&sandbox, "x", "1"),
            sandbox.command(&link).env("CUDAWRAP_WAIT", "forever"),
        ];
        for running in line_up(&sandbox, commands) {
            running.signal(signal);
            let outcome = running.wait();
            assert_eq!(outcome.signal(), Some(signal as i32), "{outcome:?}");
        }
        assert_eq!(
            (listing::waiting(&sandbox), sandbox.holders().len()),
            (0, 0)
        );
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
    let outcome = sandbox.getgpu(["--wait=0.3"]).run();
    outcome
        .exits(1)
        .prints("")
        .mentions("getgpu: waiting for a device: 1 of 1 in use, 0 ahead of you");
    outcome.mentions("getgpu: no free device: 1 of 1 in use (");
    assert!(outcome.elapsed >= Duration::from_millis(300), "{outcome:?}");
    let outcome = sandbox
        .command("cudawrap")
        .args(["-w", "0.3", "--", "true"])
        .run();
    outcome
        .exits(75)
        .mentions("cudawrap: waiting for a device: 1 of 1 in use, 0 ahead of you");
    let link = getgpu_tests::wrapped::wrap(&sandbox, "opt", "app", "sim-cuda");
    sandbox
        .command(&link)
        .env("CUDAWRAP_WAIT", "0.2")
        .run()
        .exits(75)
        .mentions("no free device: 1 of 1 in use");
    sandbox
        .command(&link)
        .env("CUDAWRAP_WAIT", "abc")
        .run()
        .refuses("cudawrap", 125, "CUDAWRAP_WAIT: `abc` is not a time");
    let waiters = line_up(
        &sandbox,
        vec![leased(&sandbox, "a", "0"), sandbox.getgpu(["--wait", "-q"])],
    );
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
    sandbox.getgpu(["--release-all"]).run().exits(0);
    sandbox
        .command("cudawrap")
        .args(["--wait", "--", "true"])
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
    let terminal = sandbox
        .command("script")
        .args([
            "-qec",
            "cudawrap --wait -- sh -c 'echo runs; :'",
            "/dev/null",
        ])
        .spawn();
    wait::until("it was written twice", || {
        terminal
            .stdout()
            .matches("in use, 0 ahead of you, 00:0")
            .count()
            >= 2
    });
    end(first);
    let shown = terminal.wait().exits(0).stdout.clone();
    assert!(
        shown.starts_with(
            "\rcudawrap: waiting for a device: 1 of 1 in use, 0 ahead of you, 00:00\x1b[K\r"
        ),
        "{shown:?}"
    );
    assert!(
        shown.ends_with("\r\x1b[Kruns\r\n"),
        "the line is taken away: {shown:?}"
    );
}
