//! Waiting in line: in order of arrival across users and programs, no one held up by who
//! is killed or stopped, nothing left behind, and NVML asked by the head alone, once a
//! second.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is a failed test, and the figures are read"
)]

use std::time::Duration;

use getgpu_tests::{OTHER, somebody};
use harness::{Command, Running, Sandbox, Signal, skip, wait};

/// How many wait, as the listing has it.
fn waiting(sandbox: &Sandbox) -> u64 {
    let listing = sandbox.getgpu(["--list", "--json"]).run().stdout;
    serde_json::from_str::<serde_json::Value>(&listing).unwrap()["waiting"]
        .as_u64()
        .unwrap()
}

/// Starts waiters one after the other, each only when those before it stand in line.
fn line_up(sandbox: &Sandbox, commands: Vec<Command>) -> Vec<Running> {
    let before = waiting(sandbox);
    let each = commands.into_iter().zip(1..).map(|(command, number)| {
        let running = command.limit(Duration::from_secs(120)).spawn();
        wait::until("it stands in line", || waiting(sandbox) == before + number);
        running
    });
    each.collect()
}

fn leased(sandbox: &Sandbox, tag: &str, time: &str) -> Command {
    sandbox
        .command("cudawrap")
        .args(["--wait", "--", "sim-cuda", "--run", time, "--tag", tag])
}

fn blocker(sandbox: &Sandbox) -> Running {
    let running = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever", "--tag", "blocker"])
        .spawn();
    sandbox.until_running(1);
    running
}

fn end(running: Running) {
    running.signal(Signal::SIGKILL);
    running.wait();
}

/// The tags of the runs so far, in order, without the blocker's.
fn order(sandbox: &Sandbox) -> Vec<String> {
    let mut runs = sandbox.folder().runs().unwrap();
    runs.sort_by_key(|run| run.start);
    runs.into_iter()
        .map(|run| run.tag)
        .filter(|tag| tag != "blocker")
        .collect()
}

#[test]
fn first_come_first_served_whoever_asks_by_whatever_means() {
    let sandbox = Sandbox::builder("h200x1")
        .settings("linger = '100ms'")
        .build();
    let root = nix::unistd::geteuid().is_root();
    let first = blocker(&sandbox);
    let waiters = (0..8).map(|number| {
        let tag = number.to_string();
        let script =
            format!("d=$(getgpu -w 60) && CUDA_VISIBLE_DEVICES=$d sim-cuda --run 0.05 --tag {tag}");
        let command = if number % 2 == 0 {
            leased(&sandbox, &tag, "0.05")
        } else {
            sandbox.shell("bash", &script)
        };
        if root && number % 3 == 0 {
            command.uid(OTHER)
        } else {
            command
        }
    });
    let waiters = line_up(&sandbox, waiters.collect());
    end(first);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(order(&sandbox), ["0", "1", "2", "3", "4", "5", "6", "7"]);
    sandbox.assert_exclusive();
    sandbox.assert_clean(Duration::from_secs(2));
}

#[test]
fn who_does_not_wait_takes_nothing_while_others_do() {
    let sandbox = Sandbox::builder("h200x1")
        .settings("linger = '100ms'")
        .build();
    let stranger = sandbox.occupy(&sandbox.uuids(), "--memory 1000");
    let waiters = line_up(
        &sandbox,
        vec![leased(&sandbox, "a", "0.1"), leased(&sandbox, "b", "0.1")],
    );
    somebody(&sandbox, &[])
        .run()
        .refuses("getgpu", 1, "no free device: 2 are waiting");
    sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .run()
        .refuses("cudawrap", 75, "no free device: 2 are waiting");
    assert_eq!(
        sandbox.getgpu(["0", "--no-reserve"]).run().line(),
        sandbox.uuids()[0],
        "an index is an index"
    );
    // Who asks again and again is no faster than who waits.
    let script = "until d=$(getgpu -q 2>/dev/null); do sleep 0.01; done; CUDA_VISIBLE_DEVICES=$d sim-cuda --run 0.1 --tag hog";
    let hogs: Vec<Running> = (0..4)
        .map(|_| sandbox.shell("bash", script).spawn())
        .collect();
    drop(stranger);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(
        order(&sandbox)
            .iter()
            .position(|tag| tag == "hog")
            .unwrap_or(3),
        3,
        "{:?}",
        order(&sandbox)
    );
    for hog in hogs {
        hog.wait().exits(0);
    }
    sandbox.assert_exclusive();
}

#[test]
fn a_request_for_something_else_is_not_held_up() {
    let sandbox = Sandbox::new("mixed");
    let uuids = sandbox.uuids();
    let hold = sandbox
        .getgpu(["--profile", "3g.20gb", "--for=600"])
        .run()
        .line();
    let waiter = line_up(
        &sandbox,
        vec![sandbox.getgpu(["--profile", "3g.20gb", "--wait", "--for=600"])],
    );
    for profile in ["2g.10gb", "1g.5gb"] {
        sandbox
            .getgpu(["--profile", profile, "--for=600"])
            .run()
            .line();
    }
    let other = line_up(
        &sandbox,
        vec![sandbox.getgpu(["--profile", "1g.5gb", "--wait", "--for=600"])],
    );
    sandbox.getgpu(["--release", &uuids[2]]).run().exits(0);
    for running in other {
        assert_eq!(running.wait().line(), uuids[2]);
    }
    sandbox.getgpu(["--release", &hold]).run().exits(0);
    for running in waiter {
        assert_eq!(running.wait().line(), hold);
    }
}

#[test]
fn a_killed_waiter_holds_nobody_up() {
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
    wait::until("three are left", || waiting(&sandbox) == 3);
    end(first);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(order(&sandbox), ["1", "3", "5"]);
    sandbox.assert_clean(Duration::from_secs(1));
}

#[test]
fn a_stopped_waiter_holds_nobody_up() {
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
fn without_a_timer_the_time_to_wait_is_kept_all_the_same() {
    let sandbox = Sandbox::new("h200x1");
    let first = blocker(&sandbox);
    let waiter = line_up(&sandbox, vec![leased(&sandbox, "a", "0.05")]);
    let script = "ulimit -i 0; exec getgpu --wait=0.5";
    let outcome = sandbox.shell("bash", script).run();
    outcome.exits(1).mentions("waited 0.5 s");
    end(first);
    for running in waiter {
        running.wait().exits(0);
    }
}

#[test]
fn interrupted_while_waiting_nothing_is_left() {
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
        assert_eq!((waiting(&sandbox), sandbox.holders().len()), (0, 0));
        // The blocker, and no helper of those who are gone.
        wait::until("only the blocker is left", || {
            sandbox.processes().len() == 1
        });
    }
    end(first);
    sandbox.assert_clean(Duration::from_secs(1));
}

#[test]
fn the_time_to_wait_is_kept_and_both_ends_are_said() {
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
fn on_a_terminal_one_line_is_written_anew() {
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

#[test]
fn the_end_of_a_program_that_never_asked_is_noticed_and_nvml_asked_once_a_second() {
    let sandbox = Sandbox::new("mig4");
    let strangers = sandbox.occupy(&sandbox.uuids(), "--memory 1000");
    let waiters = line_up(
        &sandbox,
        (0..10)
            .map(|n| leased(&sandbox, &n.to_string(), "0.02"))
            .collect(),
    );
    sandbox.folder().log_calls().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let calls = sandbox.folder().calls().unwrap();
    let opened = calls
        .iter()
        .filter(|call| call.function.contains("Init"))
        .count();
    println!("10 waiters, 4 s: NVML opened {opened} times");
    // The head alone.
    assert!((3..=6).contains(&opened), "{opened}");
    drop(strangers);
    let began = std::time::Instant::now();
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    sandbox.assert_exclusive();
}

#[test]
fn a_device_that_the_grant_names_is_waited_for_too() {
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.uuids()[2].clone();
    let first = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .visible(&uuid)
        .spawn();
    sandbox.until_running(1);
    sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .visible(&uuid)
        .run()
        .exits(75);
    let waiters = line_up(
        &sandbox,
        (0..2)
            .map(|n| leased(&sandbox, &n.to_string(), "0.05").visible(&uuid))
            .collect(),
    );
    let early = sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .visible(&uuid)
        .run();
    early.refuses("cudawrap", 75, "no free device: 2 are waiting");
    end(first);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(
        sandbox.runs_by_device()[&uuid]
            .iter()
            .map(|run| run.tag.as_str())
            .collect::<Vec<_>>()[1..],
        ["0", "1"]
    );
    sandbox.assert_exclusive();
}

#[test]
fn a_crowd_in_front_of_a_foreign_program_keeps_its_order() {
    let sandbox = Sandbox::new("h200x1");
    sandbox.faults("latency = { init_ms = 100 }");
    let stranger = sandbox.occupy(&sandbox.uuids(), "--memory 1000");
    let waiters = line_up(
        &sandbox,
        (0..12)
            .map(|n| leased(&sandbox, &n.to_string(), "0.02"))
            .collect(),
    );
    sandbox.folder().log_calls().unwrap();
    std::thread::sleep(Duration::from_secs(7));
    let opened = sandbox
        .folder()
        .calls()
        .unwrap()
        .iter()
        .filter(|call| call.function.contains("Init"))
        .count();
    println!("12 waiters, 7 s: NVML opened {opened} times");
    assert!((5..=9).contains(&opened), "the head alone asks: {opened}");
    drop(stranger);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    let order: Vec<usize> = order(&sandbox)
        .iter()
        .filter_map(|tag| tag.parse().ok())
        .collect();
    assert_eq!(order, (0..12).collect::<Vec<_>>());
}

#[test]
fn shares_are_waited_for_too() {
    let sandbox = Sandbox::new("h200x1");
    let third = |tag: &str, time: &str| {
        let program = ["--", "sim-cuda", "--max", "3", "--run", time, "--tag", tag];
        sandbox
            .command("cudawrap")
            .args(["--share", "1/3", "--wait"])
            .args(program)
    };
    let mut programs: Vec<Running> = (0..3)
        .map(|_| third("blocker", "forever").spawn())
        .collect();
    sandbox.until_running(3);
    let waiters = line_up(
        &sandbox,
        (0..3).map(|n| third(&n.to_string(), "0.1")).collect(),
    );
    let whole = line_up(&sandbox, vec![leased(&sandbox, "whole", "0.1")]);
    end(programs.remove(0));
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(order(&sandbox), ["0", "1", "2"]);
    programs.into_iter().for_each(end);
    for running in whole {
        running.wait().exits(0);
    }
    assert!(sandbox.folder().collisions().unwrap().is_empty());
}
