//! Waiters are served in order of arrival, whatever they run, and a call without `--wait`
//! never overtakes them. Different requests stand in different queues.

use std::time::Duration;

use getgpu_tests::{OTHER, listing, somebody};
use harness::{Running, Sandbox, skip};

use crate::waiters::{blocker, end, leased, line_up, order};

#[test]
fn first_come_first_served_across_users_and_commands() {
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
fn a_call_without_wait_never_overtakes_waiters() {
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
fn a_different_request_is_not_delayed() {
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
fn a_granted_device_can_be_waited_for() {
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
fn shares_can_be_waited_for() {
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

#[test]
fn a_granted_device_that_another_user_reserved_is_served_after_its_release() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.getgpu(["--for=600"]).uid(OTHER).run().line();
    let waiters = line_up(
        &sandbox,
        vec![leased(&sandbox, "waiter", "0.05").visible(&uuid)],
    );
    // The others are free, and none of them is what the grant names.
    assert_eq!(listing::free_devices(&sandbox), "3");
    assert_eq!(sandbox.running(), 0);
    sandbox
        .getgpu(["--release", &uuid])
        .uid(OTHER)
        .run()
        .exits(0);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(order(&sandbox), ["waiter"]);
    assert_eq!(sandbox.runs_by_device()[&uuid].len(), 1);
}
