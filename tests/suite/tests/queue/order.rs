//! Waiters are served in order of arrival, whatever they run, and a call without `--wait`
//! never overtakes them. Different requests stand in different queues.

use std::time::Duration;

use getgpu_tests::{as_other_user, somebody};
use harness::{Running, Sandbox, Signal, wait};

use crate::waiters::{blocker, end, leased, line_up, order, several};

#[test]
fn first_come_first_served_across_users_and_commands() {
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
    let first = blocker(&sandbox);
    let waiters = (0..8_u32).map(|number| {
        let tag = number.to_string();
        let program = format!("sim-cuda --run 0.5 --tag {tag}");
        let script = format!("d=$(getgpu -w 60 --for 20) && CUDA_VISIBLE_DEVICES=$d {program}");
        let command = match number % 2 {
            0 => leased(&sandbox, &tag, "0.05"),
            _ => sandbox.shell("bash", &script),
        };
        match number % 3 {
            0 => as_other_user(command),
            _ => command,
        }
    });
    let waiters = line_up(&sandbox, waiters.collect());
    end(first);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(order(&sandbox), ["0", "1", "2", "3", "4", "5", "6", "7"]);
    sandbox.assert_exclusive();
    sandbox.assert_clean();
}

#[test]
fn a_call_without_wait_never_overtakes_waiters() {
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
    let stranger = sandbox.occupy(&sandbox.uuids(), "--memory 1000");
    let waiters = line_up(
        &sandbox,
        ["a", "b"].map(|tag| leased(&sandbox, tag, "0.1")).into(),
    );
    let asked = somebody(&sandbox, &[]).run();
    asked.refuses(1, "no free device: 2 are waiting");
    let early = sandbox.words("cudawrap -- true").run();
    early.refuses(75, "no free device: 2 are waiting");
    // An index is an index.
    assert_eq!(sandbox.line("0 --no-reserve"), sandbox.uuids()[0]);
    // Who asks again and again is no faster than who waits.
    let script = "until d=$(getgpu -q 2>/dev/null); do sleep 0.01; done; CUDA_VISIBLE_DEVICES=$d sim-cuda --run 0.5 --tag hog";
    let hog = |_| sandbox.shell("bash", script).spawn();
    let hogs: Vec<Running> = (0..4).map(hog).collect();
    drop(stranger);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    let order = order(&sandbox);
    let first = order.iter().position(|tag| tag == "hog");
    assert_eq!(first.unwrap_or(3), 3, "{order:?}");
    for hog in hogs {
        hog.wait().exits(0);
    }
    sandbox.assert_exclusive();
}

#[test]
fn a_different_request_is_not_delayed() {
    let sandbox = Sandbox::new("mixed");
    let uuids = sandbox.uuids();
    let hold = sandbox.line("--profile 3g.20gb --for=600");
    let wait = |profile| sandbox.words(&format!("getgpu --profile {profile} --wait --for=600"));
    let waiter = line_up(&sandbox, vec![wait("3g.20gb")]);
    for profile in ["2g.10gb", "1g.5gb"] {
        sandbox.line(&format!("--profile {profile} --for=600"));
    }
    let other = line_up(&sandbox, vec![wait("1g.5gb")]);
    sandbox.getgpu(["--release", &uuids[2]]).run().exits(0);
    for running in other {
        assert_eq!(running.wait().line(), uuids[2]);
    }
    sandbox.getgpu(["--release", &hold]).run().exits(0);
    for running in waiter {
        assert_eq!(running.wait().line(), hold);
    }
}

/// How often NVML is opened in this time.
fn opened_within(sandbox: &Sandbox, time: Duration) -> usize {
    sandbox.log_calls();
    std::thread::sleep(time);
    let calls = sandbox.calls().into_iter();
    calls.filter(|call| call.function.contains("Init")).count()
}

#[test]
fn a_granted_device_can_be_waited_for() {
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.uuids()[2].clone();
    let first = sandbox.leased().visible(&uuid).spawn();
    sandbox.until_running(1);
    let now = || sandbox.words("cudawrap -- true").visible(&uuid).run();
    now().exits(75);
    let waiter = |tag| leased(&sandbox, tag, "0.05").visible(&uuid);
    let waiters = line_up(&sandbox, ["0", "1"].map(waiter).into());
    now().refuses(75, "no free device: 2 are waiting");
    end(first);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(order(&sandbox), ["", "0", "1"]);
    assert_eq!(sandbox.runs_by_device()[&uuid].len(), 3);
    sandbox.assert_exclusive();
}

/// A pipeline such as Nextflow sets an index for each of its processes, whatever is free.
#[test]
fn who_waited_in_vain_for_a_variable_is_told_the_way_around_it() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let _taken = [0, 1].map(|at| sandbox.leased().visible(&uuids[at]).spawn());
    sandbox.until_running(2);
    for (visible, words) in [
        ("0", "cudawrap --wait=0.1 -- true"),
        ("0,1", "cudawrap --wait=0.1 -- true"),
        ("0,1", "cudawrap -- true"),
    ] {
        let command = || sandbox.words(words).visible(visible);
        let refused = command().run();
        refused.exits(75).mentions("--ignore-grant");
        // Inside a job the variable is the batch system's.
        let in_job = command().env("SLURM_JOB_ID", "7").run();
        assert!(!in_job.stderr.contains("--ignore-grant"), "{in_job:#?}");
    }
    // A shell of at, cron or a container may have inherited it.
    sandbox
        .ask_within("0", "")
        .exits(1)
        .mentions("--ignore-grant chooses among all devices");
    let around = sandbox.words("cudawrap --ignore-grant --wait -- printenv CUDA_VISIBLE_DEVICES");
    assert!(uuids[2..].contains(&around.visible("0").run().line()));
    // What this call reserved itself is no pipeline's index.
    let both = "for n in 1 2; do cudawrap -- sh -c \"touch $HOME/$n; exec sleep 100\" & done; until [ -e $HOME/1 ] && [ -e $HOME/2 ]; do sleep 0.02; done";
    let script = format!(
        "export CUDA_VISIBLE_DEVICES=$(getgpu -q --hold -n 2); {both}; cudawrap -- true; kill $(jobs -p)"
    );
    let nested = sandbox.shell("bash", &script).run();
    nested.mentions("no free device: 2 of 2 in use");
    assert!(!nested.stderr.contains("--ignore-grant"), "{nested:#?}");
}

#[test]
fn a_waiter_is_served_inside_what_its_user_reserves_meanwhile() {
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.uuids()[2].clone();
    let first = sandbox.leased().visible(&uuid).spawn();
    sandbox.until_running(1);
    let waiter = line_up(&sandbox, vec![leased(&sandbox, "a", "0").visible(&uuid)]);
    // The device is free for a moment that the waiter does not see.
    waiter[0].signal(Signal::SIGSTOP);
    end(first);
    assert_eq!(sandbox.line("2 --hold"), uuid);
    waiter[0].signal(Signal::SIGCONT);
    for running in waiter {
        running.wait().exits(0);
    }
}

#[test]
fn a_waiter_sees_within_seconds_that_the_node_was_repartitioned() {
    let sandbox = Sandbox::new("mig4");
    let programs: Vec<Running> = (0..4).map(|_| sandbox.leased().spawn()).collect();
    sandbox.until_running(4);
    let waiters = line_up(&sandbox, vec![leased(&sandbox, "a", "0")]);
    let mig4 = include_str!("../../../sim/nodes/mig4.toml");
    sandbox.set_node(&mig4.replace("4x1g.5gb", "2x3g.20gb"));
    programs.into_iter().for_each(end);
    for running in waiters {
        running.wait().exits(0);
    }
}

/// The UUID of a GPU, and that of a MIG device made anew at the same place, stays the same.
#[test]
fn a_waiter_takes_no_device_that_has_become_another_one() {
    let gpu = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n";
    let mig = |profile: &str| {
        format!(
            "{gpu}mig = true\ndevice = [{{ gi = 2, ci = 0, profile = '{profile}', index = 0 }}]\n"
        )
    };
    let cases = [
        (gpu.to_owned(), "--wait", mig("3g.20gb"), 0),
        (
            mig("3g.20gb"),
            "--wait=4 --min-memory 15G",
            mig("1g.5gb"),
            125,
        ),
    ];
    for (before, wish, after, status) in cases {
        let sandbox = Sandbox::new(&before);
        let first = sandbox.leased().spawn();
        sandbox.until_running(1);
        let line = format!("cudawrap {wish} -- printenv CUDA_VISIBLE_DEVICES");
        let waiters = line_up(&sandbox, vec![sandbox.words(&line)]);
        sandbox.set_node(&after);
        end(first);
        for waiter in waiters {
            let outcome = waiter.wait();
            outcome.exits(status);
            if status == 0 {
                assert_eq!(outcome.line(), sandbox.uuids()[0], "the MIG device");
            } else {
                outcome.mentions("1 smaller than asked for");
            }
        }
    }
}

#[test]
fn a_crowd_in_front_of_a_foreign_program_keeps_its_order() {
    let sandbox = Sandbox::new("h200x1");
    sandbox.faults("latency = { init_ms = 100 }");
    let stranger = sandbox.occupy(&sandbox.uuids(), "--memory 1000");
    let waiters = several(&sandbox, 12, "0.02");
    let opened = opened_within(&sandbox, Duration::from_secs(7));
    println!("12 waiters, 7 s: NVML opened {opened} times");
    assert!((1..=9).contains(&opened), "the head alone asks: {opened}");
    drop(stranger);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    let mut order = order(&sandbox);
    order.retain(|tag| !tag.is_empty());
    let arrived = (0..12).map(|place: usize| place.to_string());
    assert!(order.iter().cloned().eq(arrived), "{order:?}");
}

/// What a program leases is its own, also while others wait for it.
#[test]
fn a_nested_call_does_not_queue_for_its_own_device() {
    let sandbox = Sandbox::new("h200x1");
    let uuid = &sandbox.uuids()[0];
    let script = "until [ -e go ]; do sleep 0.05; done; cudawrap -- sim-cuda";
    let outer = sandbox.words("cudawrap -- sh -c").args([script]);
    let outer = outer.visible(uuid).spawn();
    wait::until("it is leased", || sandbox.locked());
    let waiter = leased(&sandbox, "waiter", "0.05").visible(uuid);
    let waiters = line_up(&sandbox, vec![waiter]);
    sandbox.file("work/go", "", 0o644);
    outer.wait().exits(0);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
}
