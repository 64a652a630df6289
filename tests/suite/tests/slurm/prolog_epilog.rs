//! Prolog and Epilog called as Slurm calls them: as root, with Slurm's variables alone,
//! 50 at once, twice, and not at all. They always end with status 0 and leave nothing
//! behind a job.

use std::fs;
use std::time::{Duration, Instant};

use getgpu_tests::{OTHER, root};
use harness::{Running, Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::hook_calls::{counts, epilog, hook, is_called, job, mig4, prolog, quiet, sleeper};

#[test]
fn fifty_prologs_at_once_are_balanced_and_their_jobs_named() {
    let Some(sandbox) = mig4() else { return };
    let settings = "shares = ['other=1', 'gpushare16=1/16']";
    let all: Vec<Running> = (0..50)
        .map(|number| hook(&sandbox, "prolog", settings, &job(number), "gpushare16"))
        .collect();
    all.into_iter().for_each(|prolog| drop(quiet(prolog)));
    let mut found = counts(&sandbox);
    found.sort_unstable();
    assert_eq!(found, [12, 12, 13, 13]);
    let holders = sandbox.holders();
    // Lists name the job's user.
    assert!(holders.iter().all(|holder| holder.uid == OTHER));
    for number in 0..50 {
        let tag = format!("tag=slurm-{}", job(number));
        // A child in which a holder reads what may hang looks like the holder.
        let is_tagged = holders.iter().any(|holder| holder.words.contains(&tag));
        assert!(is_tagged, "{tag}");
    }
    let all: Vec<Running> = (0..50)
        .map(|number| epilog(&sandbox, &job(number)))
        .collect();
    all.into_iter().for_each(|epilog| drop(quiet(epilog)));
    sandbox.assert_clean();
}

/// A job's user can have slurmd name a settings file, or a lock, by the environment.
#[test]
fn only_a_settings_file_of_roots_counts_in_a_hook() {
    let Some(sandbox) = mig4() else { return };
    sandbox.set_settings("[slurm]\nshares = ['mine=1']");
    for (owner, reserved) in [(0, 1), (OTHER, 0)] {
        std::os::unix::fs::chown(sandbox.settings_file(), Some(owner), None).unwrap();
        quiet(hook(&sandbox, "prolog", "", &job(0), "mine"));
        assert_eq!(sandbox.holders().len(), reserved, "of uid {owner}");
        quiet(epilog(&sandbox, &job(0)));
    }
}

#[test]
fn hooks_may_run_twice_alone_or_for_nothing() {
    let Some(sandbox) = mig4() else { return };
    // No prolog before it; a job that does not ask.
    quiet(epilog(&sandbox, &job(0)));
    quiet(hook(&sandbox, "prolog", "", &job(0), ""));
    quiet(hook(&sandbox, "prolog", "", &job(0), "gpushare40"));
    sandbox.assert_clean();
    quiet(prolog(&sandbox, &job(0)));
    quiet(prolog(&sandbox, &job(0)));
    // The same one twice, and it is no earlier job's.
    let first = sandbox.holders()[0].pid;
    quiet(hook(&sandbox, "prolog", "old = 0", &job(0), "gpushare4"));
    // The site's settings are others by now: the job has the part that it has.
    let shares = "shares = ['gpushare4=1/8']";
    quiet(hook(&sandbox, "prolog", shares, &job(0), "gpushare4"));
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
    assert_eq!(sandbox.holders()[0].pid, first);
    // The lock is missing, as after a boot: the hook makes the one that is named.
    quiet(epilog(&sandbox, &job(0)));
    fs::remove_file(sandbox.lock()).unwrap();
    quiet(prolog(&sandbox, &job(0)));
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
    // The holder killed: nothing is left, the epilog finds nothing, the prolog makes
    // another.
    kill(Pid::from_raw(sandbox.holders()[0].pid), Signal::SIGKILL).unwrap();
    wait::until("it has exited", || sandbox.holders().is_empty());
    quiet(epilog(&sandbox, &job(0)));
    sandbox.assert_clean();
    quiet(prolog(&sandbox, &job(0)));
    quiet(epilog(&sandbox, &job(0)));
    quiet(epilog(&sandbox, &job(0)));
    sandbox.assert_clean();
    // A partition may stand for a constraint.
    let shares = "shares = ['main=1/2']";
    quiet(hook(&sandbox, "prolog", shares, &job(1), ""));
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
    quiet(epilog(&sandbox, &job(1)));
    sandbox.assert_clean();
}

#[test]
fn the_next_prolog_gives_up_what_no_epilog_did() {
    let Some(sandbox) = mig4() else { return };
    let tags = || {
        let holders = sandbox.holders();
        let is_part = |words: &[String]| words.iter().any(|word| word == "part=1");
        let parts = holders.iter().filter(|holder| is_part(&holder.words));
        let tags = parts
            .flat_map(|holder| &holder.words)
            .filter_map(|word| word.strip_prefix("tag=slurm-"));
        let mut tags: Vec<String> = tags.map(str::to_owned).collect();
        tags.sort();
        tags
    };
    let (dead, live, young, next) = (job(0), job(1), job(2), job(3));
    for number in [&dead, &live] {
        quiet(prolog(&sandbox, number));
    }
    // Not a job's, whatever its name.
    let mine = format!("slurm-{}", job(9));
    sandbox.line(&format!("--hold=0 --share 1/4 --tag {mine}"));
    // A step of one of the two, as Slurm calls it.
    let title = format!("slurmstepd: [{live}.extern]");
    let step = sleeper(&sandbox, "slurmstepd", &title);
    let _step = step.spawn();
    // Who calls a process so without being root keeps nothing.
    let feint = sleeper(&sandbox, "slurmstepd", &format!("slurmstepd: [{dead}.0]"));
    let _feint = feint.uid(OTHER).spawn();
    wait::until("both steps run", || {
        let all = sandbox.processes().into_iter();
        all.filter(|pid| is_called(*pid, "slurmstepd")).count() == 2
    });
    // Young enough: it stays.
    quiet(prolog(&sandbox, &young));
    assert_eq!(tags(), [dead.clone(), live.clone(), young.clone()]);
    // Old, and over. (Its own number is never given up, nor a job's that has a step.)
    let said = hook(&sandbox, "prolog", "old = 0", &next, "gpushare4").wait();
    assert_eq!(tags(), [live.clone(), next]);
    said.exits(0).prints("");
    let expected = [
        format!("getgpu prolog: slurm-{dead}: released, its job has ended"),
        format!("getgpu prolog: slurm-{young}: released, its job has ended"),
    ];
    let mut lines: Vec<&str> = said.stderr.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, expected);
    assert_eq!(sandbox.holders().len(), 3, "and the one of another name");
}

#[test]
fn a_process_that_looks_like_an_old_holder_takes_nothing_away() {
    let Some(sandbox) = mig4() else { return };
    let tag = format!("tag=slurm-{}", job(0));
    let words = format!("getgpu --holder {} {tag}", sandbox.uuids()[0]);
    let feint = sleeper(&sandbox, "getgpu-hold", &words);
    let began = Instant::now();
    let _feint = feint.uid(OTHER).spawn();
    wait::until("it is old", || began.elapsed() > Duration::from_secs(4));
    quiet(prolog(&sandbox, &job(0)));
    quiet(hook(&sandbox, "prolog", "old = 3", &job(1), "gpushare4"));
    let mut holders = sandbox.holders();
    holders.retain(|holder| holder.words.contains(&tag));
    assert_eq!(holders.len(), 1);
}

#[test]
fn a_jobs_own_gpus_are_what_its_part_is_of() {
    let Some(sandbox) = root("gpus4") else { return };
    sandbox.set_settings("without_grant = \"none\"");
    // Slurm names them by index; who has none is granted a part of any.
    let prolog = |number, lines: &str| {
        let hook = hook(&sandbox, "prolog", lines, &job(number), "gpushare4");
        drop(quiet(hook));
        counts(&sandbox)
    };
    let granted = prolog(0, "export CUDA_VISIBLE_DEVICES=2");
    assert_eq!(granted, [0, 0, 1, 0]);
    let options = "options = '--gpu 3'";
    assert_eq!(prolog(1, options), [0, 0, 1, 1]);
    // The site's options are for jobs without GPUs of their own: GPU 3 is not this job's.
    prolog(2, &format!("{options}\nexport CUDA_VISIBLE_DEVICES=1"));
    let last = prolog(3, &format!("{options}\nexport SLURM_JOB_GPUS=0"));
    assert_eq!(last, [1, 1, 1, 1]);
}

/// A job may have another group than its user's login (newgrp(1)): only a process of the
/// same group can see what a holder has.
#[test]
fn a_part_is_held_by_the_jobs_own_group() {
    let Some(sandbox) = root("gpus4") else { return };
    let group = "export SLURM_JOB_GID=4711";
    quiet(hook(&sandbox, "prolog", group, &job(0), "gpushare4"));
    let holders = sandbox.holders();
    let status = fs::read_to_string(format!("/proc/{}/status", holders[0].pid)).unwrap();
    for (line, id) in [("Uid:", OTHER), ("Gid:", 4711)] {
        let ids = format!("\n{line}\t{id}\t{id}\t{id}\t{id}\n");
        assert!(status.contains(&ids), "{status}");
    }
    let groups = status.split("\nGroups:").nth(1).unwrap().lines().next();
    assert_eq!(groups.map(str::trim), Some("4711"), "{status}");
}
