//! Named reservations, and reservations for another user: what a prolog reserves as root
//! the job's user finds by its tag, and an epilog releases. Equal requests under one tag
//! share one reservation.

use std::collections::BTreeSet;

use getgpu_tests::{OTHER, assert_devices, bytes, listing, root};
use harness::skip::{self, Need};
use harness::{Sandbox, wait};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

#[test]
fn a_tag_prints_its_reservation_again_and_releases_it() {
    let sandbox = Sandbox::new("mig4");
    let again = |arguments: &[&str]| sandbox.getgpu(arguments).run();
    again(&["--tag", "a"]).refuses(1, "--tag a: nothing is reserved under it");
    let first = again(&["--hold", "--tag", "a"]).line();
    assert_eq!(again(&["--tag", "a"]).line(), first);
    // The same request again.
    assert_eq!(again(&["--hold", "--tag", "a"]).line(), first);
    let env = again(&["--tag", "a", "--format", "env"]).line();
    assert_eq!(env, format!("export CUDA_VISIBLE_DEVICES={first}"));
    again(&["--hold", "--tag", "a", "-n", "2"]).refuses(2, "--tag a: in use for ");
    let pair = again(&["--hold", "--tag", "b-2_x.y", "-n", "2"]).line();
    assert_eq!(again(&["--tag", "b-2_x.y"]).line(), pair);
    let mut all: Vec<String> = pair.split(',').map(str::to_owned).collect();
    all.extend([first.clone(), again(&["--no-reserve"]).line()]);
    assert_devices(&all, &sandbox.uuids());
    let listed = listing::json(&sandbox);
    let holders = &listing::device(&listed, &first)["holders"];
    assert_eq!(holders[0]["tag"], "a");
    again(&["--release", "a"]).exits(0).says(&[]);
    again(&["--release", "a"]).refuses(1, "a: no reservation of yours");
    again(&["--tag", "a"]).exits(1).prints("");
    again(&["--release", "b-2_x.y"]).exits(0);
    sandbox.assert_clean();
}

/// A script that is sourced twice, or a cell of a notebook that runs again.
#[test]
fn a_caller_that_has_the_reservation_as_its_grant_asks_for_the_same() {
    let sandbox = Sandbox::new("mig4");
    for options in [
        "--hold --tag x",
        "-n 2 --hold --tag y",
        "--share 1/2 --hold --tag z",
    ] {
        let line = format!("export CUDA_VISIBLE_DEVICES=$(getgpu {options})");
        let show = "echo $CUDA_VISIBLE_DEVICES";
        let script = format!("{line}; {show}; {line}; {show}; getgpu --policy first {options}");
        let outcome = sandbox.shell("bash", &script).run();
        let lines = outcome.exits(0).told();
        assert!(
            lines.len() == 3 && lines.iter().all(|line| *line == lines[0]),
            "{outcome:#?}"
        );
    }
    // Another device of its own, and another request.
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); getgpu --hold --tag v >/dev/null; \
                  export CUDA_VISIBLE_DEVICES=$(getgpu --ignore-grant --hold --tag w); \
                  getgpu --hold --tag v || getgpu --share 1/2 --hold --tag w";
    let outcome = sandbox.shell("bash", script).run();
    let told = ["--tag v: in use for ", "--tag w: in use for "];
    outcome.exits(2).mentions(told[0]).mentions(told[1]);
}

#[test]
fn bad_tags_and_users_are_refused_in_one_line() {
    let sandbox = Sandbox::new("mig4");
    let long = "x".repeat(65);
    #[rustfmt::skip]
    let cases = [
        &["--tag", ""][..], &["--tag", "a b"], &["--tag", "a/b"], &["--tag", "ä"],
        &["--tag", &long], &["--tag", "a", "--no-reserve"], &["--tag", "a", "--list"],
        &["--uid", "x", "--hold"], &["--uid", "-1", "--hold"],
        &["--uid", "4294967295", "--hold"], &["--uid", "1001", "--count-free"],
    ];
    for words in cases {
        sandbox.getgpu(words).run().refuses(2, "");
    }
    let longest = "x".repeat(64);
    sandbox.getgpu(["--tag", &longest, "--hold"]).run().line();
    if !skip::lacks(&[Need::Root]) {
        let line = "--uid 1002: only root may reserve for another user";
        let other = sandbox.ask_as(OTHER, "--uid 1002 --hold");
        other.refuses(2, line);
        sandbox.ask_as(OTHER, "--uid 1001 --hold").line();
    }
}

/// Only then may the user's processes look into it (ptrace(2)).
#[test]
fn a_reservation_for_another_user_has_the_group_of_their_login() {
    let Some(sandbox) = root("mig4") else { return };
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let ids = passwd.lines().map(|line| {
        let words: Vec<&str> = line.split(':').collect();
        (words[2].to_owned(), words[3].to_owned())
    });
    let Some((uid, gid)) = ids.into_iter().find(|(uid, gid)| uid != gid) else {
        skip::say("each user here has a group of the same number");
        return;
    };
    sandbox.line(&format!("--tag job --uid {uid} --hold=0"));
    let holder = format!("/proc/{}/status", sandbox.holders()[0].pid);
    let status = std::fs::read_to_string(holder).unwrap();
    let line = status.lines().find(|line| line.starts_with("Gid:"));
    assert_eq!(line.unwrap().split_whitespace().nth(1), Some(gid.as_str()));
}

#[test]
fn twenty_calls_with_one_tag_at_once_make_one_reservation() {
    let sandbox = Sandbox::new("a100x1");
    let calls: Vec<_> = (0..20)
        .map(|_| sandbox.words("getgpu --tag t --share 1/2 --hold").spawn())
        .collect();
    let given: Vec<String> = calls.into_iter().map(|call| call.wait().line()).collect();
    assert!(given.iter().all(|uuid| *uuid == given[0]), "{given:?}");
    assert_eq!(sandbox.holders().len(), 1);
}

#[test]
fn a_tag_delays_no_other_user() {
    let Some(sandbox) = root("mig4") else { return };
    sandbox.line("-q -n 4 --hold=0 --tag all");
    let ask = |uid: u32, words: &[&str]| sandbox.getgpu(words).uid(uid);
    let hold = format!("--hold={}", std::process::id());
    let wanted = [&hold, "--tag", "train", "--wait"];
    let waiters: Vec<_> = (0..2).map(|_| ask(OTHER, &wanted).spawn()).collect();
    wait::until("both wait", || listing::json(&sandbox)["waiting"] == 2);
    // Neither the owner of the name nor a user with a name of his own.
    for uid in [OTHER, 1002] {
        let outcome = ask(uid, &[&hold, "--tag", "train"]).run();
        outcome.refuses(1, "no free device: 2 are waiting");
    }
    // Who comes out of the line second finds the name in use for the same request.
    sandbox.ask("--release all").exits(0);
    let waiters = waiters.into_iter();
    let given: Vec<String> = waiters.map(|waiter| waiter.wait().line()).collect();
    assert_eq!(given[0], given[1]);
    assert_eq!(sandbox.holders().len(), 1);
}

/// Anybody can lock any byte. This one used to delay every prolog of the node by a
/// minute.
#[test]
fn a_strangers_lock_on_a_tag_delays_nobody_for_long() {
    let sandbox = Sandbox::new("mig4");
    let stranger = bytes::open(&sandbox);
    bytes::lock(&stranger, nix::libc::F_WRLCK, bytes::TAGS, 1 << 24).unwrap();
    let outcome = sandbox.ask("--hold --tag slurm-17");
    outcome.line();
}

/// A tag that begins as those of this package's own services do changes nothing: what
/// belongs to whom, and what `--release-all` gives up.
#[test]
fn a_tag_is_only_a_name() {
    let tags = [
        "",
        "mine",
        "slurm-foo",
        "slurm-17",
        "python-foo",
        "plain-foo",
    ];
    for tag in tags {
        let sandbox = Sandbox::new("mig4");
        let tagged = if tag.is_empty() {
            String::new()
        } else {
            format!("--tag {tag}")
        };
        let script = format!(
            "sleep 1000 >/dev/null 2>&1 & CUDA_VISIBLE_DEVICES=$(getgpu {tagged} --hold=$!); \
             export CUDA_VISIBLE_DEVICES; cudawrap -- true; echo $?; \
             [ $(getgpu) = $CUDA_VISIBLE_DEVICES ]; echo $?; \
             unset CUDA_VISIBLE_DEVICES; getgpu --release-all; echo $?; kill $!"
        );
        let outcome = sandbox.shell("bash", &script).run();
        assert_eq!(
            outcome.exits(0).told(),
            ["0", "0", "0"],
            "{tag}: {outcome:#?}"
        );
        outcome.says(&[]);
        sandbox.assert_clean();
    }
}

/// Root finds anybody's reservation by its tag, but reserves under a tag of its own.
#[test]
fn one_tag_of_several_users_is_several_reservations() {
    let Some(sandbox) = root("mig4") else { return };
    let request = ["--hold=0", "--tag", "t", "--uid"];
    let hold = format!("--hold={}", std::process::id());
    let theirs = sandbox.ask_as(OTHER, &format!("{hold} --tag t")).line();
    assert_eq!(sandbox.line("--tag t"), theirs);
    let third = (OTHER + 1).to_string();
    let request = request.into_iter().chain([third.as_str()]);
    let of_third = sandbox.getgpu(request).run().line();
    // The very request of the other user.
    let own = sandbox.getgpu([&hold, "--tag", "t"]).run().line();
    let all = [&theirs, &of_third, &own];
    assert_eq!(BTreeSet::from(all).len(), 3, "{all:?}");
    for (uid, uuid) in [(OTHER, &theirs), (OTHER + 1, &of_third)] {
        let line = sandbox.ask_as(uid, "--tag t").line();
        assert_eq!(line, *uuid, "uid {uid}");
    }
    let all = sandbox.line("--tag t");
    assert_eq!(all.split(',').count(), 3, "{all}");
}

#[test]
fn a_limit_in_time_takes_back_what_was_not_printed() {
    let sandbox = Sandbox::new("mig4");
    let (reader, writer) = nix::unistd::pipe().unwrap();
    // No one reads, and the pipe is full to its last byte.
    let set = |flags| fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    set(OFlag::O_NONBLOCK);
    while nix::unistd::write(&writer, &[0; 4096]).is_ok() {}
    set(OFlag::empty());
    let hold = format!("--hold={}", std::process::id());
    for keep in [&hold, "--for=1h"] {
        let call = sandbox.words(&format!("timeout 1 getgpu {keep} --tag a"));
        let call = call.stdout(writer.try_clone().unwrap());
        call.run().exits(124);
        sandbox.assert_clean();
    }
    drop(reader);
}

/// A batch job's reservations are its own affair, also where the same user calls.
#[test]
fn release_all_leaves_alone_what_other_jobs_keep() {
    let Some(sandbox) = root("gpus4") else { return };
    let call = |job: &str, words: &[&str]| {
        let command = sandbox.getgpu(words).uid(OTHER);
        match job {
            "" => command.run(),
            _ => command.env("SLURM_JOB_ID", job).run(),
        }
    };
    let left = |tag: &str| call("", &["--tag", tag]).code() == Some(0);
    for (caller, line, expected) in [
        ("7", "1 reservation of other", [false, false, false, true]),
        ("", "2 reservations of other", [false, false, true, true]),
    ] {
        for (job, tag) in [("", "plain"), ("", "slurm-8"), ("7", "own"), ("9", "other")] {
            call(job, &["--for=600", "--tag", tag]).exits(0);
        }
        let released = call(caller, &["--release-all"]);
        released.exits(0).mentions(line);
        released.mentions(" batch jobs left alone, such as job ");
        assert_eq!(["plain", "slurm-8", "own", "other"].map(left), expected);
    }
    sandbox.ask("--release-all").exits(0).says(&[]);
    sandbox.assert_clean();
}

/// `CUDAWRAP_TAG` is a name that several reservations may have.
#[test]
fn the_name_that_a_listing_shows_is_no_tag_to_release() {
    let sandbox = Sandbox::new("mig4");
    let command = sandbox
        .words("getgpu --for=60")
        .env("CUDAWRAP_TAG", "night-7");
    let device = command.run().line();
    let refused = sandbox.words("getgpu --release=night-7").run();
    refused.refuses(1, "night-7: no reservation of yours");
    refused.mentions("hint: CUDAWRAP_TAG only shows a name");
    sandbox
        .words(&format!("getgpu --release={device}"))
        .run()
        .exits(0);
}
