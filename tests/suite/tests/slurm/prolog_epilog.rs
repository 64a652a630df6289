//! Prolog and Epilog called as Slurm calls them: as root, with Slurm's variables alone,
//! 50 at once, twice, and not at all. They always end with status 0 and leave nothing
//! behind a job.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use getgpu_tests::OTHER;
use harness::skip::{self, Need};
use harness::{Running, Sandbox, Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::hook_calls::{counts, epilog, hook, job, prolog, quiet};

#[test]
fn fifty_prologs_at_once_are_balanced_and_their_jobs_named() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let settings = "shares = ['other=1', 'gpushare16=1/16']";
    let all: Vec<Running> = (0..50)
        .map(|number| hook(&sandbox, "prolog", settings, &job(number), "gpushare16"))
        .collect();
    all.into_iter().for_each(|prolog| drop(quiet(prolog)));
    let found = counts(&sandbox);
    assert!(
        found.iter().sum::<usize>() == 50
            && found.iter().max().unwrap() - found.iter().min().unwrap() <= 1,
        "{found:?}"
    );
    assert!(
        sandbox.holders().iter().all(|holder| holder.uid == OTHER),
        "lists name the job's user"
    );
    let mut tags: BTreeMap<String, usize> = BTreeMap::new();
    for word in sandbox
        .holders()
        .iter()
        .flat_map(|holder| &holder.words)
        .filter(|word| word.starts_with("tag="))
    {
        *tags.entry(word.clone()).or_default() += 1;
    }
    assert!(
        (0..50).all(|number| tags.get(&format!("tag=slurm-{}", job(number))) == Some(&1)),
        "{tags:?}"
    );
    let all: Vec<Running> = (0..50)
        .map(|number| epilog(&sandbox, &job(number)))
        .collect();
    all.into_iter().for_each(|epilog| drop(quiet(epilog)));
    sandbox.assert_clean(Duration::ZERO);
}

#[test]
fn hooks_may_run_twice_alone_or_for_nothing() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    // No prolog before it; a job that does not ask.
    quiet(epilog(&sandbox, &job(0)));
    quiet(hook(&sandbox, "prolog", "", &job(0), ""));
    quiet(hook(&sandbox, "prolog", "", &job(0), "gpushare40"));
    sandbox.assert_clean(Duration::ZERO);
    quiet(prolog(&sandbox, &job(0)));
    quiet(prolog(&sandbox, &job(0)));
    assert_eq!(
        counts(&sandbox).iter().sum::<usize>(),
        1,
        "the same one twice"
    );
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
    sandbox.assert_clean(Duration::ZERO);
    quiet(prolog(&sandbox, &job(0)));
    quiet(epilog(&sandbox, &job(0)));
    quiet(epilog(&sandbox, &job(0)));
    sandbox.assert_clean(Duration::ZERO);
    // A partition may stand for a constraint.
    quiet(hook(
        &sandbox,
        "prolog",
        "shares = ['main=1/2']",
        &job(1),
        "",
    ));
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
    quiet(epilog(&sandbox, &job(1)));
    sandbox.assert_clean(Duration::ZERO);
}

#[test]
fn the_next_prolog_gives_up_what_no_epilog_did() {
    if skip::lacks(&[Need::Root, Need::Tool("ps")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let tags = || {
        let holders = sandbox.holders();
        let mut tags: Vec<String> = holders
            .iter()
            .flat_map(|holder| &holder.words)
            .filter_map(|word| word.strip_prefix("tag=slurm-"))
            .map(str::to_owned)
            .collect();
        tags.sort();
        tags
    };
    let (dead, live, young, next) = (job(0), job(1), job(2), job(3));
    for number in [&dead, &live] {
        quiet(prolog(&sandbox, number));
    }
    // Of another name: not a job's.
    sandbox
        .getgpu(["--hold=0", "--share", "1/4", "--tag", "mine"])
        .run()
        .line();
    // A step of one of the two, as Slurm calls it.
    let (step, title) = (
        sandbox.path("work/slurmstepd"),
        format!("slurmstepd: [{live}.extern]"),
    );
    fs::copy("/bin/sleep", &step).unwrap();
    let start = sandbox
        .command("bash")
        .args(["-c", "exec -a \"$0\" \"$1\" 1000", &title])
        .args([&step]);
    let _step = start.limit(Duration::MAX).spawn();
    // Who calls a process so without being root keeps nothing.
    let title = format!("slurmstepd: [{dead}.0]");
    let start = sandbox
        .command("bash")
        .args(["-c", "exec -a \"$0\" \"$1\" 1000", &title])
        .args([&step]);
    let _feint = start.uid(OTHER).limit(Duration::MAX).spawn();
    let comm = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).unwrap_or_default() == "slurmstepd\n"
    };
    wait::until("both steps run", || {
        sandbox
            .processes()
            .iter()
            .filter(|pid| comm(&PathBuf::from(format!("/proc/{pid}"))))
            .count()
            == 2
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
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let feint = sandbox.path("work/getgpu-hold");
    fs::copy("/bin/sleep", &feint).unwrap();
    let words = format!(
        "getgpu --holder {} tag=slurm-{}",
        sandbox.uuids()[0],
        job(0)
    );
    let start = sandbox
        .command("bash")
        .args(["-c", "exec -a \"$0\" \"$1\" 1000", &words])
        .args([&feint]);
    let began = Instant::now();
    let _feint = start.uid(OTHER).limit(Duration::MAX).spawn();
    wait::until("it is old", || began.elapsed() > Duration::from_secs(4));
    quiet(prolog(&sandbox, &job(0)));
    quiet(hook(&sandbox, "prolog", "old = 3", &job(1), "gpushare4"));
    assert_eq!(
        sandbox
            .holders()
            .iter()
            .filter(|holder| holder.words.contains(&format!("tag=slurm-{}", job(0))))
            .count(),
        1
    );
}

#[test]
fn a_jobs_own_gpus_are_what_its_part_is_of() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("gpus4")
        .settings("without_grant = \"none\"")
        .build();
    // Slurm names them by index; who has none is granted a part of any.
    quiet(hook(
        &sandbox,
        "prolog",
        "export CUDA_VISIBLE_DEVICES=2",
        &job(0),
        "gpushare4",
    ));
    assert_eq!(counts(&sandbox), [0, 0, 1, 0]);
    let options = "options = '--gpu 3'";
    quiet(hook(&sandbox, "prolog", options, &job(1), "gpushare4"));
    assert_eq!(counts(&sandbox), [0, 0, 1, 1]);
    // The site's options are for jobs without GPUs of their own: GPU 3 is not this job's.
    quiet(hook(
        &sandbox,
        "prolog",
        &format!("{options}\nexport CUDA_VISIBLE_DEVICES=1"),
        &job(2),
        "gpushare4",
    ));
    quiet(hook(
        &sandbox,
        "prolog",
        &format!("{options}\nexport SLURM_JOB_GPUS=0"),
        &job(3),
        "gpushare4",
    ));
    assert_eq!(counts(&sandbox), [1, 1, 1, 1]);
}
