//! Named reservations, and reservations for another user: what a prolog reserves as root
//! the job's user finds by its tag, and an epilog releases. Equal requests under one tag
//! share one reservation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use getgpu_tests::{OTHER, PLAIN, assert_devices, bytes, listing};
use harness::skip::{self, Need};
use harness::{Sandbox, wait};

#[test]
fn a_tag_prints_its_reservation_again_and_releases_it() {
    let sandbox = Sandbox::new("mig4");
    let again = |arguments: &[&str]| sandbox.getgpu(arguments).run();
    again(&["--tag", "a"]).refuses("getgpu", 1, "--tag a: nothing is reserved under it");
    let first = again(&["--hold", "--tag", "a"]).line();
    assert_eq!(again(&["--tag", "a"]).line(), first);
    assert_eq!(
        again(&["--hold", "--tag", "a"]).line(),
        first,
        "the same request again"
    );
    assert_eq!(
        again(&["--tag", "a", "--format", "env"]).line(),
        format!("export CUDA_VISIBLE_DEVICES={first}")
    );
    again(&["--hold", "--tag", "a", "-n", "2"]).refuses("getgpu", 2, "--tag a: in use for ");
    let pair = again(&["--hold", "--tag", "b-2_x.y", "-n", "2"]).line();
    assert_eq!(again(&["--tag", "b-2_x.y"]).line(), pair);
    assert_devices(
        &pair
            .split(',')
            .chain([first.as_str()])
            .map(str::to_owned)
            .collect::<Vec<_>>(),
        &{
            let free = again(&["--no-reserve"]).line();
            sandbox
                .uuids()
                .into_iter()
                .filter(|uuid| *uuid != free)
                .collect::<Vec<_>>()
        },
    );
    let tags = listing::json(&sandbox);
    let of = |uuid: &str| {
        tags["devices"]
            .as_array()
            .unwrap()
            .iter()
            .find(|d| d["uuid"] == uuid)
            .unwrap()
            .clone()
    };
    assert_eq!(of(&first)["holders"][0]["tag"], "a");
    again(&["--release", "a"]).exits(0).says(&[]);
    again(&["--release", "a"]).refuses("getgpu", 1, "a: no reservation of yours");
    again(&["--tag", "a"]).exits(1).prints("");
    again(&["--release", "b-2_x.y"]).exits(0);
    sandbox.assert_clean(Duration::ZERO);
}

#[test]
fn bad_tags_and_users_are_refused_in_one_line() {
    let sandbox = Sandbox::new("mig4");
    let long = "x".repeat(65);
    for words in [
        &["--tag", ""][..],
        &["--tag", "a b"],
        &["--tag", "a/b"],
        &["--tag", "ä"],
        &["--tag", &long],
        &["--tag", "a", "--no-reserve"],
        &["--tag", "a", "--list"],
        &["--uid", "x", "--hold"],
        &["--uid", "-1", "--hold"],
        &["--uid", "4294967295", "--hold"],
        &["--uid", "1001", "--count-free"],
    ] {
        sandbox.getgpu(words).run().refuses("getgpu", 2, "");
    }
    let longest = "x".repeat(64);
    sandbox.getgpu(["--tag", &longest, "--hold"]).run().line();
    if !skip::lacks(&[Need::Root]) {
        let other = sandbox.getgpu(["--uid", "1002", "--hold"]).uid(OTHER).run();
        other.refuses(
            "getgpu",
            2,
            "--uid 1002: only root may reserve for another user",
        );
        sandbox
            .getgpu(["--uid", "1001", "--hold"])
            .uid(OTHER)
            .run()
            .line();
    }
}

#[test]
fn twenty_calls_with_one_tag_at_once_make_one_reservation() {
    let sandbox = Sandbox::new("a100x1");
    let calls: Vec<_> = (0..20)
        .map(|_| {
            sandbox
                .getgpu(["--tag", "t", "--share", "1/2", "--hold"])
                .spawn()
        })
        .collect();
    let given: Vec<String> = calls.into_iter().map(|call| call.wait().line()).collect();
    assert!(given.iter().all(|uuid| *uuid == given[0]), "{given:?}");
    assert_eq!(sandbox.holders().len(), 1);
}

#[test]
fn a_tag_delays_no_other_user() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    sandbox
        .getgpu(["-q", "-n", "4", "--hold=0", "--tag", "all"])
        .run()
        .line();
    let ask = |uid: u32, words: &[&str]| {
        sandbox
            .getgpu(words)
            .uid(uid)
            .limit(Duration::from_secs(20))
    };
    let hold = format!("--hold={}", std::process::id());
    let wanted = [&hold, "--tag", "train", "--wait"];
    let waiters: Vec<_> = (0..2).map(|_| ask(OTHER, &wanted).spawn()).collect();
    wait::until("both wait", || listing::json(&sandbox)["waiting"] == 2);
    // Neither the owner of the name nor a user with a name of his own.
    for uid in [OTHER, 1002] {
        let outcome = ask(uid, &[&hold, "--tag", "train"]).run();
        outcome.refuses("getgpu", 1, "no free device: 2 are waiting");
        assert!(
            outcome.elapsed < Duration::from_secs(10),
            "{:?}",
            outcome.elapsed
        );
    }
    // Who comes out of the line second finds the name in use for the same request.
    sandbox.getgpu(["--release", "all"]).run().exits(0);
    let given: Vec<String> = waiters
        .into_iter()
        .map(|waiter| waiter.wait().line())
        .collect();
    assert_eq!(
        (&given[0], sandbox.holders().len()),
        (&given[1], 1),
        "{given:?}"
    );
}

/// Anybody can lock any byte. This one used to delay every prolog of the node by a
/// minute.
#[test]
fn a_strangers_lock_on_a_tag_delays_nobody_for_long() {
    let sandbox = Sandbox::new("mig4");
    let stranger = bytes::open(&sandbox);
    bytes::lock(&stranger, nix::libc::F_WRLCK, bytes::TAGS, 1 << 24).unwrap();
    let outcome = sandbox.getgpu(["--hold", "--tag", "slurm-17"]).run();
    outcome.line();
    assert!(
        outcome.elapsed < Duration::from_secs(15),
        "{:?}",
        outcome.elapsed
    );
}

#[test]
fn root_reserves_for_a_user_who_finds_it_and_runs_there() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let uid = OTHER.to_string();
    let prolog = [
        "--share", "1/4", "--tag", "slurm-17", "--uid", &uid, "--hold=0",
    ];
    let uuid = sandbox.getgpu(prolog).run().line();
    assert_eq!(
        sandbox.getgpu(prolog).run().line(),
        uuid,
        "a prolog may run twice"
    );
    // Lists name the user, and the holder is the user's.
    assert_eq!(sandbox.holders()[0].uid, OTHER);
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", sandbox.holders()[0].pid)).unwrap();
    let field = |name: &str| {
        status
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(
        field("Uid:").split_whitespace().skip(1).all(|id| id == uid),
        "{status}"
    );
    assert!(
        !field("Groups:")
            .split_whitespace()
            .any(|group| group == "0"),
        "{status}"
    );
    let shown = listing::json(&sandbox);
    let holder = shown["devices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|d| d["uuid"] == *uuid)
        .unwrap()["holders"]
        .clone();
    assert_eq!(
        (holder[0]["uid"].as_u64(), holder.as_array().unwrap().len()),
        (Some(OTHER.into()), 1),
        "{holder}"
    );
    assert_eq!(holder[0]["share"], 0.25);
    // The user's task: reads the name back, and leases just that part.
    let task = sandbox
        .getgpu(["--tag", "slurm-17", "--format", "env"])
        .uid(OTHER)
        .run()
        .line();
    let script = format!("{task}; exec cudawrap -- sim-cuda --run forever --shared");
    let program = sandbox.shell("sh", &script).uid(OTHER).spawn();
    sandbox.until_running(1);
    assert_eq!(sandbox.folder().running().unwrap()[0].uuid, uuid);
    let used = listing::json(&sandbox);
    let used = used["devices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|d| d["uuid"] == *uuid)
        .unwrap()
        .clone();
    assert_eq!(used["share_used"], 0.25, "{used}");
    // Not another user's, and not by the user's own release of something else.
    sandbox
        .getgpu(["--tag", "slurm-17"])
        .uid(1002)
        .run()
        .exits(1)
        .prints("");
    sandbox
        .getgpu(["--release", "slurm-17"])
        .uid(1002)
        .run()
        .exits(1);
    // The epilog.
    sandbox.getgpu(["--release", "slurm-17"]).run().exits(0);
    sandbox.getgpu(["--release", "slurm-17"]).run().exits(1);
    drop(program);
    wait::until("free", || !sandbox.locked());
}

/// Root finds anybody's reservation by its tag, but reserves under a tag of its own.
#[test]
fn one_tag_of_several_users_is_several_reservations() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let request = ["--hold=0", "--tag", "t", "--uid"];
    let hold = format!("--hold={}", std::process::id());
    let theirs = sandbox
        .getgpu([&hold, "--tag", "t"])
        .uid(OTHER)
        .run()
        .line();
    assert_eq!(sandbox.getgpu(["--tag", "t"]).run().line(), theirs);
    let third = (OTHER + 1).to_string();
    let of_third = sandbox
        .getgpu(request.into_iter().chain([third.as_str()]))
        .run()
        .line();
    // The very request of the other user.
    let own = sandbox.getgpu([&hold, "--tag", "t"]).run().line();
    assert_eq!(
        BTreeSet::from([&theirs, &of_third, &own]).len(),
        3,
        "{theirs} {of_third} {own}"
    );
    for (uid, uuid) in [(OTHER, &theirs), (OTHER + 1, &of_third)] {
        let line = sandbox.getgpu(["--tag", "t"]).uid(uid).run().line();
        assert_eq!(line, *uuid, "uid {uid}");
    }
    let all = sandbox.getgpu(["--tag", "t"]).run().line();
    assert_eq!(all.split(',').count(), 3, "{all}");
}

#[test]
fn a_crowd_of_prologs_spreads_evenly() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let start = |job: u32| {
        let (tag, uid) = (format!("slurm-{job}"), (OTHER + job % 3).to_string());
        sandbox
            .getgpu(["--share", "1/16", "--tag", &tag, "--uid", &uid, "--hold=0"])
            .limit(Duration::from_secs(60))
            .spawn()
    };
    let calls: Vec<_> = (0..50).map(start).collect();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for call in calls {
        *counts.entry(call.wait().line()).or_default() += 1;
    }
    let (least, most) = (
        counts.values().min().unwrap(),
        counts.values().max().unwrap(),
    );
    assert!(counts.len() == 4 && most - least <= 1, "{counts:?}");
    sandbox
        .getgpu(["--release-all"])
        .limit(Duration::from_secs(60))
        .run()
        .exits(0);
    sandbox.assert_clean(Duration::ZERO);
}

#[test]
fn a_tagged_reservation_is_not_taken_over_by_a_loop() {
    let sandbox = Sandbox::new("mig4");
    let script = "d=$(getgpu --for 30 --tag mine) && CUDA_VISIBLE_DEVICES=$d sim-cuda; \
                  CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda; getgpu --tag mine >/dev/null && echo kept";
    let outcome = sandbox.shell("bash", script).run();
    assert!(
        outcome.exits(0).says(&[]).stdout.ends_with("kept\n"),
        "{outcome:#?}"
    );
    let runs = sandbox.folder().runs().unwrap();
    assert_ne!(runs[0].uuid, runs[1].uuid);
    sandbox.getgpu(PLAIN).run().line();
}

#[test]
fn a_limit_in_time_takes_back_what_was_not_printed() {
    let sandbox = Sandbox::new("mig4");
    let (reader, writer) = nix::unistd::pipe().unwrap();
    // Nobody reads, and the pipe is full to its last byte.
    let flags = nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
    while nix::unistd::write(&writer, &[0; 4096]).is_ok() {}
    nix::fcntl::fcntl(
        &writer,
        nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()),
    )
    .unwrap();
    for keep in ["--hold=0", "--for=1h"] {
        sandbox
            .command("timeout")
            .args(["1", "getgpu", keep, "--tag", "a"])
            .stdout(writer.try_clone().unwrap())
            .run()
            .exits(124);
        sandbox.assert_clean(Duration::from_secs(2));
    }
    drop(reader);
}

/// A batch job's reservations are its own affair, also where the same user calls.
#[test]
fn release_all_leaves_alone_what_other_jobs_keep() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let call = |job: &str, words: &[&str]| {
        let command = sandbox.getgpu(words).uid(OTHER);
        let command = if job.is_empty() {
            command
        } else {
            command.env("SLURM_JOB_ID", job)
        };
        command.run()
    };
    for (job, tag) in [("", "plain"), ("", "slurm-8"), ("7", "own"), ("9", "other")] {
        call(job, &["--for=600", "--tag", tag]).exits(0);
    }
    let left = |tag: &str| call("", &["--tag", tag]).code() == Some(0);
    call("7", &["--release-all"])
        .exits(0)
        .mentions("2 reservations of other batch jobs left alone, such as job ");
    assert_eq!(
        ["plain", "slurm-8", "own", "other"].map(left),
        [false, true, false, true]
    );
    sandbox.getgpu(["--release-all"]).run().exits(0).says(&[]);
    sandbox.assert_clean(Duration::from_secs(2));
}
