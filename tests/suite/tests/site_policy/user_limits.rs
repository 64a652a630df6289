//! How many devices one user may have at a time. The count holds for calls at the same
//! instant, for shares, and for reservations that are reused.

use std::time::Duration;

use getgpu_tests::wrapped::wrap_shell;
use getgpu_tests::{OTHER, bytes, listing};
use harness::{Running, Sandbox, Signal, skip, wait};

#[test]
fn a_user_has_no_more_than_the_site_allows() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("a100x1")
        .settings("max_per_user = 2")
        .build();
    let ask = |arguments: &[&str]| sandbox.getgpu(arguments).uid(OTHER).run();
    let first = ask(&["--for=600"]).line();
    let program = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .uid(OTHER)
        .spawn();
    sandbox.until_running(1);
    let refused = ask(&[]);
    refused.refuses("getgpu", 1, "you hold 2 of at most 2: MIG-");
    // The reservation is this process's, who called getgpu.
    let reserved = format!("{first} (pid {}, site_policy", std::process::id());
    assert!(
        refused.stderr.contains(&reserved) && refused.stderr.contains("sim-cuda)"),
        "{refused:?}"
    );
    sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .uid(OTHER)
        .run()
        .refuses("cudawrap", 75, "you hold 2 of at most 2");
    assert!(
        ask(&["3"]).line().starts_with("MIG-"),
        "an index is printed, and not reserved"
    );
    assert_eq!(sandbox.holders().len(), 1);
    // Others have their own two; root any number.
    sandbox
        .getgpu(["-q", "-n", "2", "--for=600"])
        .uid(OTHER + 1)
        .run()
        .line();
    sandbox.getgpu(["-q", "-n", "3"]).run().line();
    program.signal(Signal::SIGKILL);
    program.wait();
    ask(&["-q", "-n", "2"]).refuses("getgpu", 1, "you hold 1 of at most 2");
    ask(&["--release-all"]).exits(0);
    assert_eq!(ask(&["-q", "-n", "2"]).line().split(',').count(), 2);
}

/// As the list names it.
#[test]
fn what_a_wrapped_program_holds_is_told_with_its_whole_name() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("mig4")
        .settings("max_per_user = 2")
        .build();
    let app = wrap_shell(&sandbox, "opt", "simulate");
    let script = "unset CUDA_VISIBLE_DEVICES; getgpu --hold > given; mv given ran; kill -STOP $$";
    let run = sandbox
        .command(&app)
        .args(["-c", script])
        .uid(OTHER)
        .spawn();
    sandbox.until_file("work/ran");
    let refused = sandbox.getgpu([""; 0]).uid(OTHER).run();
    refused.refuses("getgpu", 1, "you hold 2 of at most 2: MIG-");
    let who = format!(" (pid {}, simulate)", run.pid());
    assert_eq!(refused.stderr.matches(&who).count(), 2, "{refused:#?}");
}

#[test]
fn a_request_beyond_the_user_limit_is_refused_at_once_also_with_wait() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("h200x1")
        .settings("max_per_user = 2")
        .build();
    sandbox.set_node("driver = '570.133.20'\n[[gpu]]\nmodel = 'H200'\ncount = 4\n");
    let line = "--count 3: max_per_user allows 2 at a time on this node";
    let taken = sandbox.getgpu(["-q", "-n", "3", "--hold=0"]).run();
    taken.line();
    for words in [&["-n", "3"][..], &["-n", "3", "--wait"]] {
        sandbox
            .getgpu(words)
            .uid(OTHER)
            .run()
            .refuses("getgpu", 3, line);
        let program = [words, &["--", "true"]].concat();
        sandbox
            .command("cudawrap")
            .args(program)
            .uid(OTHER)
            .run()
            .refuses("cudawrap", 125, line);
    }
    // So are shares that are more together, of which a user can never have that many.
    sandbox.getgpu(["--release-all"]).run().exits(0);
    sandbox.set_settings("max_per_user = 1");
    for (count, share) in [("3", "1/2"), ("2", "100G")] {
        let line = format!(
            "--count {count} with --share {share}: max_per_user allows 1 at a time on this node"
        );
        let words = ["-n", count, "--share", share, "--wait"];
        let ask = sandbox.getgpu(words).uid(OTHER).run();
        ask.refuses("getgpu", 3, &line);
        let program = [&words[..], &["--", "true"]].concat();
        let program = sandbox.command("cudawrap").args(program).uid(OTHER).run();
        program.refuses("cudawrap", 125, &line);
    }
    let halves = ["-n", "2", "--share", "1/2", "--no-reserve"];
    sandbox.getgpu(halves).uid(OTHER).run().exits(0);
}

/// Each of them is behind its choice and in a library that takes its time to let go.
#[test]
fn a_slow_end_of_nvml_keeps_no_other_call_from_being_counted() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("a100x1")
        .settings("max_per_user = 4")
        .build();
    sandbox.faults("[[rule]]\nfunction = 'nvmlShutdown'\ndoes = 'stop'");
    let state = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .chars()
            .next()
    };
    let stopped = || {
        sandbox
            .processes()
            .into_iter()
            .filter(|pid| state(pid) == Some('T'))
            .collect::<Vec<_>>()
    };
    let calls: Vec<Running> = (0..3)
        .map(|_| sandbox.getgpu(["--for=600"]).uid(OTHER).spawn())
        .collect();
    wait::until("all three have chosen", || stopped().len() == 3);
    // Shares are counted as parts also while their devices are only claimed.
    let parts: Vec<Running> = (0..3)
        .map(|_| {
            sandbox
                .getgpu(["--for=600", "--share", "1/4"])
                .uid(OTHER)
                .spawn()
        })
        .collect();
    wait::until("and three quarters", || stopped().len() == 6);
    let fifth = sandbox.getgpu(["--for=600"]).uid(OTHER).run();
    fifth.refuses("getgpu", 1, "you hold 3.75 of at most 4: ");
    let go_on = || {
        for pid in stopped() {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGCONT);
        }
    };
    for call in calls.into_iter().chain(parts) {
        let mut call = call;
        wait::until("it has exited", || {
            go_on();
            call.is_over()
        });
        call.wait().exits(0);
    }
    assert_eq!(sandbox.holders().len(), 6);
}

/// The bytes that say whose a device is can be locked by anybody, for anybody.
#[test]
fn a_strangers_lock_on_a_users_bytes_counts_as_nothing() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("mig4")
        .settings("max_per_user = 2")
        .build();
    let stranger = bytes::open(&sandbox);
    for uuid in sandbox.uuids() {
        for region in [bytes::LEASE_UIDS, bytes::RESERVATION_UIDS] {
            bytes::lock(
                &stranger,
                nix::libc::F_RDLCK,
                bytes::span(&uuid) + region + i64::from(OTHER),
                1,
            )
            .unwrap();
        }
    }
    sandbox.getgpu(["-q", "-n", "2"]).uid(OTHER).run().line();
    sandbox.getgpu(["--release-all"]).uid(OTHER).run().exits(0);
    // The byte under which one's own calls are counted, one after the other.
    bytes::lock(
        &stranger,
        nix::libc::F_WRLCK,
        bytes::COUNTING_UIDS + i64::from(OTHER),
        1,
    )
    .unwrap();
    let outcome = sandbox.getgpu(["-q", "-n", "2"]).uid(OTHER).run();
    outcome.line();
    assert!(
        outcome.elapsed < Duration::from_secs(15),
        "{:?}",
        outcome.elapsed
    );
}

#[test]
fn a_batch_grant_is_never_over_the_limit() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("gpus4")
        .settings("max_per_user = 2")
        .build();
    let grant = sandbox.uuids().join(",");
    let ranks: Vec<Running> = (0..4)
        .map(|_| {
            let command = sandbox
                .command("cudawrap")
                .args(["--", "sim-cuda", "--run", "forever"])
                .uid(OTHER);
            command.env("SLURM_JOB_ID", "7").visible(&grant).spawn()
        })
        .collect();
    sandbox.until_running(4);
    drop(ranks);
    sandbox.assert_clean(Duration::from_secs(5));
    // Outside of a job the same list is the user's own word, and counted.
    let held: Vec<Option<i32>> = (0..3)
        .map(|_| {
            sandbox
                .getgpu(["--hold"])
                .uid(OTHER)
                .visible(&grant)
                .run()
                .code()
        })
        .collect();
    assert_eq!(held, [Some(0), Some(0), Some(1)]);
}

#[test]
fn root_of_a_user_namespace_is_no_root() {
    if skip::lacks(&[skip::Need::Root, skip::Need::UserNamespace]) {
        return;
    }
    let sandbox = Sandbox::builder("a100x1")
        .settings("max_per_user = 1")
        .build();
    let script = "unshare -Ur getgpu --hold; unshare -Ur getgpu --hold; getgpu --hold; true";
    let outcome = sandbox.shell("bash", script).uid(OTHER).run();
    assert_eq!(outcome.exits(0).stdout.lines().count(), 1, "{outcome:#?}");
}

#[test]
fn calls_at_the_same_instant_are_counted_too_and_shares_as_parts() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("a100x8")
        .settings("max_per_user = 2")
        .build();
    // A caller of their own: what other tests start below this process may not be read,
    // and would count as use of these devices.
    for (arguments, most) in [("--for=600", 2), ("--for=600 --share 1/4", 8)] {
        let script = format!(
            "for i in $(seq 16); do {{ getgpu {arguments} >/dev/null 2>&1; echo $?; }} & done; wait"
        );
        let said = sandbox.shell("bash", &script).uid(OTHER).run().stdout;
        let codes: Vec<&str> = said.lines().collect();
        assert!(
            codes.len() == 16 && codes.iter().all(|code| ["0", "1"].contains(code)),
            "{codes:?}"
        );
        let given = codes.iter().filter(|code| **code == "0").count();
        assert_eq!((given, sandbox.holders().len()), (most, most), "{codes:?}");
        sandbox.getgpu(["--release-all"]).run().exits(0);
    }
}

#[test]
fn a_waiter_over_its_limit_is_skipped_and_served_later() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("h200x1")
        .settings("max_per_user = 1")
        .build();
    sandbox.set_node("driver = '570.133.20'\n[[gpu]]\nmodel = 'H200'\ncount = 2\n");
    let run = |uid: u32, time: &str| {
        let program = ["--wait", "--", "sim-cuda", "--run", time];
        sandbox
            .command("cudawrap")
            .args(program)
            .uid(uid)
            .limit(Duration::from_secs(60))
            .spawn()
    };
    let blocker = run(2000, "forever");
    let mine = run(OTHER, "forever");
    sandbox.until_running(2);
    let waiting = || listing::waiting(&sandbox);
    // More than look for themselves behind a head that does nothing.
    let again: Vec<Running> = (0..5).map(|_| run(OTHER, "0.1")).collect();
    wait::until("five wait", || waiting() == 5);
    let other = run(3000, "0.1");
    wait::until("six wait", || waiting() == 6);
    blocker.signal(Signal::SIGKILL);
    blocker.wait();
    other.wait().exits(0);
    assert!(
        sandbox.folder().runs().unwrap().len() == 3,
        "the first in line has one already"
    );
    mine.signal(Signal::SIGKILL);
    mine.wait();
    for running in again {
        running.wait().exits(0);
    }
    sandbox.assert_exclusive();
    sandbox.assert_clean(Duration::from_secs(2));
}
