//! How many devices one user may have at a time. The count holds for calls at the same
//! instant and for shares; what is inside a reservation is counted once.

use std::time::Duration;

use getgpu_tests::wrapped::wrap_shell;
use getgpu_tests::{OTHER, bytes, listing};
use harness::{Running, Sandbox, skip, wait};

#[test]
fn a_user_has_no_more_than_the_site_allows() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "a100x1", "max_per_user = 2") else {
        return;
    };
    let ask = |arguments: &str| sandbox.ask_as(OTHER, arguments);
    let first = ask("--for=600").line();
    let program = sandbox.leased().uid(OTHER).spawn();
    sandbox.until_running(1);
    let refused = ask("");
    refused.refuses(1, "you hold 2 of at most 2: MIG-");
    refused.mentions("hint: getgpu --release UUID gives up a reservation; ");
    // The reservation is this process's, who called getgpu.
    let reserved = format!("{first} (pid {}, site_policy", std::process::id());
    assert!(
        refused.stderr.contains(&reserved) && refused.stderr.contains("sim-cuda)"),
        "{refused:?}"
    );
    let refused = sandbox.words("cudawrap -- true").uid(OTHER).run();
    refused.refuses(75, "you hold 2 of at most 2");
    // An index is printed, and not reserved.
    ask("3").exits(0).shows("MIG-");
    assert_eq!(sandbox.holders().len(), 1);
    // Others have their own two; root any number.
    sandbox.ask_as(OTHER + 1, "-q -n 2 --for=600").line();
    sandbox.line("-q -n 3");
    program.kill();
    ask("-q -n 2").refuses(1, "you hold 1 of at most 2");
    ask("--release-all").exits(0);
    let inside = "export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 2 --hold); \
                  cudawrap --share 1/2 -- true && cudawrap -- true";
    sandbox.shell("bash", inside).uid(OTHER).run().exits(0);
    ask("--release-all").exits(0);
    assert_eq!(ask("-q -n 2").line().split(',').count(), 2);
}

/// The lease of a program is inside its reservation, on one device.
#[test]
fn a_program_and_its_reservation_count_once() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "gpus4", "max_per_user = 2") else {
        return;
    };
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); \
                  cudawrap -- sh -c 'unset CUDA_VISIBLE_DEVICES; getgpu; getgpu'";
    let both = sandbox.shell("bash", script).uid(OTHER).run();
    both.exits(1).mentions("you hold 2 of at most 2");
    assert_eq!(both.stdout.lines().count(), 1, "{both:?}");
}

/// Only a part of the node is looked at, and all of it counts.
#[test]
fn what_a_user_has_on_another_gpu_counts() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "gpus4", "max_per_user = 1") else {
        return;
    };
    let words = "cudawrap --gpu 0 -- sim-cuda --run forever";
    let _first = sandbox.words(words).uid(OTHER).spawn();
    sandbox.until_running(1);
    let second = sandbox.words("cudawrap --gpu 1 -- sim-cuda").uid(OTHER);
    let refused = second.run();
    refused.refuses(75, "you hold 1 of at most 1");
    refused.mentions("hint: a lease ends with its program; ");
    let second = sandbox.words("getgpu --gpu 1").uid(OTHER);
    second.run().refuses(1, "you hold 1 of at most 1");
}

/// A group counts by which the user belongs to others as well.
#[test]
fn a_group_beside_the_users_own_has_its_limit() {
    let settings = "max_per_user = 1\n[group.daemon]\nmax_per_user = 2";
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "gpus4", settings) else {
        return;
    };
    let Ok(Some(group)) = nix::unistd::Group::from_name("daemon") else {
        skip::say("there is no group daemon here");
        return;
    };
    let two = |groups: &str| {
        let user = format!("setpriv --reuid={OTHER} --regid={OTHER} {groups}");
        sandbox
            .words(&format!("{user} getgpu -n 2 --no-reserve"))
            .run()
    };
    two("--clear-groups").refuses(3, "");
    two(&format!("--groups={}", group.gid)).exits(0);
}

/// Two users share a device: the limit of one does not count the part of the other.
#[test]
fn a_part_of_a_device_counts_for_the_user_who_has_it() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "gpus4", "max_per_user = 1") else {
        return;
    };
    let uuids = sandbox.uuids();
    let half = |user: u32, device: usize| {
        let getgpu = sandbox.words("getgpu -q --share 1/2 --for=600").uid(user);
        getgpu.visible(&uuids[device]).run()
    };
    half(OTHER + 1, 0).exits(0);
    half(OTHER, 0).exits(0);
    half(OTHER, 1).exits(0);
    half(OTHER, 2).refuses(1, "you hold 1 of at most 1");
}

/// As the list names it.
#[test]
fn what_a_wrapped_program_holds_is_told_with_its_whole_name() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "mig4", "max_per_user = 2") else {
        return;
    };
    let app = wrap_shell(&sandbox, "opt", "simulate");
    let script = "unset CUDA_VISIBLE_DEVICES; getgpu --hold > given; mv given ran; kill -STOP $$";
    let run = sandbox.command(&app).args(["-c", script]);
    let run = run.uid(OTHER).spawn();
    sandbox.until_file("work/ran");
    let refused = sandbox.getgpu([""; 0]).uid(OTHER).run();
    refused.refuses(1, "you hold 2 of at most 2: MIG-");
    let who = format!(" (pid {}, simulate)", run.pid());
    assert_eq!(refused.stderr.matches(&who).count(), 2, "{refused:#?}");
}

#[test]
fn a_request_over_the_user_limit_is_refused_even_with_wait() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "h200x1", "max_per_user = 2") else {
        return;
    };
    sandbox.set_node("driver = '570.133.20'\n[[gpu]]\nmodel = 'H200'\ncount = 4\n");
    let line = "--count 3: max_per_user allows 2 at a time on this node";
    let taken = sandbox.ask("-q -n 3 --hold=0");
    taken.line();
    let refused = |words: &str, line: &str| {
        sandbox.ask_as(OTHER, words).refuses(3, line);
        let program = sandbox.words(&format!("cudawrap {words} -- true"));
        program.uid(OTHER).run().refuses(125, line);
    };
    refused("-n 3", line);
    refused("-n 3 --wait", line);
    // So are shares that are more together, of which a user can never have that many.
    sandbox.ask("--release-all").exits(0);
    sandbox.set_settings("max_per_user = 1");
    for (count, share) in [("3", "1/2"), ("2", "100G")] {
        let line = format!(
            "--count {count} with --share {share}: max_per_user allows 1 at a time on this node"
        );
        refused(&format!("-n {count} --share {share} --wait"), &line);
    }
    sandbox
        .ask_as(OTHER, "-n 2 --share 1/2 --no-reserve")
        .exits(0);
}

/// The bytes that say whose a device is can be locked by anybody, for anybody.
#[test]
fn a_strangers_lock_on_a_users_bytes_counts_as_nothing() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "mig4", "max_per_user = 2") else {
        return;
    };
    let stranger = bytes::open(&sandbox);
    for uuid in sandbox.uuids() {
        for region in [bytes::LEASE_UIDS, bytes::RESERVATION_UIDS] {
            let byte = bytes::span(&uuid) + region + i64::from(OTHER);
            bytes::lock(&stranger, nix::libc::F_RDLCK, byte, 1).unwrap();
        }
    }
    sandbox.ask_as(OTHER, "-q -n 2").line();
    sandbox.ask_as(OTHER, "--release-all").exits(0);
    // Nor where no process of the host is seen.
    let container = "unshare -pf --kill-child --mount-proc setpriv --reuid=1001 --clear-groups";
    let line = format!("{container} getgpu -q -n 2 --no-reserve");
    sandbox.words(&line).run().line();
    // The byte under which one's own calls are counted, one after the other.
    let byte = bytes::COUNTING_UIDS + i64::from(OTHER);
    bytes::lock(&stranger, nix::libc::F_WRLCK, byte, 1).unwrap();
    let outcome = sandbox.ask_as(OTHER, "-q -n 2");
    outcome.line();
    // It might be one of the user's own calls, which goes from one to the next.
    assert!(outcome.elapsed >= Duration::from_secs(5));
}

#[test]
fn a_batch_grant_is_never_over_the_limit() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "gpus4", "max_per_user = 2") else {
        return;
    };
    let grant = sandbox.uuids().join(",");
    let rank = |_| {
        let command = sandbox.leased().uid(OTHER).env("SLURM_JOB_ID", "7");
        command.visible(&grant).spawn()
    };
    let ranks: Vec<Running> = (0..4).map(rank).collect();
    sandbox.until_running(4);
    drop(ranks);
    sandbox.assert_clean();
    // Outside of a job the same list is the user's own word, and counted.
    for status in [0, 0, 1] {
        let hold = sandbox.words("getgpu --hold").uid(OTHER);
        hold.visible(&grant).run().exits(status);
    }
}

#[test]
fn root_of_a_user_namespace_is_no_root() {
    let Some(sandbox) = Sandbox::given(
        &[skip::Need::Root, skip::Need::UserNamespace],
        "a100x1",
        "max_per_user = 1",
    ) else {
        return;
    };
    let script = "unshare -Ur getgpu --hold; unshare -Ur getgpu --hold; getgpu --hold; true";
    let outcome = sandbox.shell("bash", script).uid(OTHER).run();
    assert_eq!(outcome.exits(0).stdout.lines().count(), 1, "{outcome:#?}");
}

#[test]
fn calls_at_one_instant_are_all_counted_and_shares_as_parts() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "a100x8", "max_per_user = 2") else {
        return;
    };
    // A caller of their own: what other tests start below this process may not be read,
    // and would count as use of these devices.
    for (arguments, most) in [("--for=600", 2), ("--for=600 --share 1/4", 8)] {
        let script = format!(
            "for i in $(seq 16); do {{ getgpu {arguments} >/dev/null 2>&1; echo $?; }} & done; wait"
        );
        let said = sandbox.shell("bash", &script).uid(OTHER).run().stdout;
        let [given, refused] = ["0", "1"].map(|code| said.lines().filter(|l| *l == code).count());
        assert_eq!((given, refused), (most, 16 - most), "{said}");
        assert_eq!(sandbox.holders().len(), most, "{said}");
        sandbox.ask("--release-all").exits(0);
    }
}

#[test]
fn a_waiter_over_its_limit_is_skipped_and_served_later() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "h200x1", "max_per_user = 1") else {
        return;
    };
    sandbox.set_node("driver = '570.133.20'\n[[gpu]]\nmodel = 'H200'\ncount = 2\n");
    let run = |uid: u32, time: &str| {
        let line = format!("cudawrap --wait -- sim-cuda --run {time}");
        let command = sandbox.words(&line).uid(uid);
        command.limit(Duration::from_secs(60)).spawn()
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
    blocker.kill();
    other.wait().exits(0);
    // The first in line has one already.
    assert_eq!(sandbox.runs().len(), 3);
    mine.kill();
    for running in again {
        running.wait().exits(0);
    }
    sandbox.assert_exclusive();
    sandbox.assert_clean();
}

/// What a program leaves behind, and what the user's container has, no process signs.
#[test]
fn what_no_living_process_has_signed_is_counted() {
    if skip::lacks(&[skip::Need::Root]) {
        return;
    }
    let container = format!(
        "unshare -pf --kill-child --mount-proc setpriv --reuid={OTHER} --regid={OTHER} \
         --clear-groups cudawrap -q -- sim-cuda --until-file over >&2 &"
    );
    let left = "cudawrap -- sh -c 'sim-cuda --until-file over >&2 &'";
    for (uid, script) in [(OTHER, left), (0, &container)] {
        let sandbox = Sandbox::with("mig4", "max_per_user = 1");
        sandbox.shell("sh", script).uid(uid).run().exits(0);
        sandbox.until_running(1);
        let refused = sandbox.ask_as(OTHER, "");
        refused.refuses(1, "you hold 1 of at most 1: MIG-");
        sandbox.file("work/over", "", 0o644);
    }
}

/// Neither a stranger's program, nor over the limit what another user reserves.
#[test]
fn what_does_not_become_free_is_not_waited_for() {
    let Some(sandbox) = Sandbox::given(
        &[skip::Need::Root],
        "mig4",
        "max_per_user = 1\nlinger = '60s'",
    ) else {
        return;
    };
    let refused = || {
        let refused = sandbox.ask_as(OTHER, "-q");
        refused.exits(1);
    };
    let strangers = sandbox.occupy(&sandbox.uuids(), "--memory 1000");
    refused();
    drop(strangers);
    let hold = format!("--hold={} --gpu 0", std::process::id());
    sandbox.ask_as(OTHER, &hold).line();
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.3; true";
    sandbox.shell("bash", script).run().exits(0);
    let probe = bytes::open(&sandbox);
    wait::until("it lingers", || {
        let mut spans = sandbox.uuids().into_iter().map(|uuid| bytes::span(&uuid));
        spans.any(|span| bytes::is_locked(&probe, span + bytes::LINGERING, bytes::UNITS))
    });
    refused();
}
