//! The hooks of `etc/slurm` called as Slurm calls them: as root, with Slurm's variables
//! and nothing else, 50 at once, twice, and not at all. They always end with status 0,
//! and leave nothing once a job is over.
#![allow(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test with a place"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use getgpu_tests::{OTHER, slurm};
use harness::skip::{self, Need};
use harness::{Outcome, Running, Sandbox, Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// Numbers of jobs that no other test on this host has.
fn job(number: u32) -> String {
    (std::process::id() * 100 + number).to_string()
}

/// One of the hooks for a job of [`OTHER`] that asks for a quarter, or for one that does
/// not.
fn hook(sandbox: &Sandbox, name: &str, settings: &str, job: &str, constraints: &str) -> Running {
    let script = slurm::hook_lines(sandbox, name, settings);
    let command = sandbox.command("env").args([
        "-i",
        &format!("SLURM_JOB_ID={job}"),
        &format!("SLURM_JOB_UID={OTHER}"),
    ]);
    let command = command.args([
        format!("SLURM_JOB_CONSTRAINTS={constraints}"),
        "SLURM_JOB_PARTITION=main".to_owned(),
    ]);
    let command = command.args(["/bin/sh", "-c", &script]);
    command
        .directory("/")
        .limit(Duration::from_secs(90))
        .spawn()
}

/// One that has to end well and say nothing.
#[track_caller]
fn quiet(hook: Running) -> Outcome {
    let outcome = hook.wait();
    outcome.exits(0).prints("").says(&[]);
    outcome
}

/// The mark of a job that got nothing.
fn mark(number: u32) -> String {
    format!("slurm-{}", job(number))
}

fn prolog(sandbox: &Sandbox, number: &str) -> Running {
    hook(sandbox, "prolog", "", number, "h100&[gpushare4*2]")
}

fn epilog(sandbox: &Sandbox, number: &str) -> Running {
    hook(sandbox, "epilog", "", number, "")
}

/// How many jobs have a part of each device.
fn counts(sandbox: &Sandbox) -> Vec<usize> {
    let listing: serde_json::Value =
        serde_json::from_str(&sandbox.getgpu(["--list", "--json"]).run().stdout).unwrap();
    listing["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["holders"].as_array().map_or(0, Vec::len))
        .collect()
}

#[test]
fn fifty_prologs_at_once_are_balanced_and_their_jobs_named() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let settings = "export GETGPU_SLURM_SHARES='other=1 gpushare16=1/16'";
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
    // The holder killed: nothing is left, the epilog finds nothing, the prolog makes
    // another.
    kill(Pid::from_raw(sandbox.holders()[0].pid), Signal::SIGKILL).unwrap();
    wait::until("it is over", || sandbox.holders().is_empty());
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
        "export GETGPU_SLURM_SHARES=main=1/2",
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
    let said = hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_OLD=0",
        &next,
        "gpushare4",
    )
    .wait();
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
    quiet(hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_OLD=3",
        &job(1),
        "gpushare4",
    ));
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
fn what_goes_wrong_is_said_and_never_fails_the_job() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let all = sandbox.getgpu(["--hold", "-n", "4"]).run().line();
    let refused = prolog(&sandbox, &job(0)).wait();
    refused
        .exits(0)
        .prints("")
        .mentions("nothing reserved: getgpu: no free");
    sandbox.getgpu(["--release-all"]).run().exits(0);
    assert_eq!(all.split(',').count(), 4);
    quiet(epilog(&sandbox, &job(0)));
    for name in ["prolog", "epilog"] {
        for bad in ["", "x", "1;id", "-1"] {
            let said = hook(&sandbox, name, "", bad, "gpushare4").wait();
            said.exits(0).prints("").says(&[&format!(
                "getgpu {name}: SLURM_JOB_ID={bad}: not a job's number"
            )]);
        }
        // No getgpu at all.
        hook(
            &sandbox,
            name,
            "export PATH=/usr/bin:/bin",
            &job(0),
            "gpushare4",
        )
        .wait()
        .exits(0)
        .prints("")
        .mentions("getgpu: not found");
        assert_eq!(
            sandbox.beside_lock(),
            if name == "prolog" {
                vec![mark(0)]
            } else {
                Vec::new()
            }
        );
    }
    hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_SHARES='gpushare4=many'",
        &job(0),
        "gpushare4",
    )
    .wait()
    .exits(0)
    .mentions("many");
    quiet(epilog(&sandbox, &job(0)));
    sandbox.assert_clean(Duration::ZERO);
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
    let options = "export GETGPU_SLURM_OPTIONS='--gpu 3'";
    quiet(hook(&sandbox, "prolog", options, &job(1), "gpushare4"));
    assert_eq!(counts(&sandbox), [0, 0, 1, 1]);
    // The site's options are for jobs without GPUs of their own: GPU 3 is not this job's.
    quiet(hook(
        &sandbox,
        "prolog",
        &format!("{options} CUDA_VISIBLE_DEVICES=1"),
        &job(2),
        "gpushare4",
    ));
    quiet(hook(
        &sandbox,
        "prolog",
        &format!("{options} SLURM_JOB_GPUS=0"),
        &job(3),
        "gpushare4",
    ));
    assert_eq!(counts(&sandbox), [1, 1, 1, 1]);
}

#[test]
fn a_job_that_was_promised_a_part_in_vain_is_marked_until_its_epilog() {
    if skip::lacks(&[Need::Root, Need::Tool("ps")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let holder = sandbox
        .getgpu(["--hold=0", "-n", "4", "--tag", "all"])
        .run();
    assert_eq!(holder.line().split(',').count(), 4);
    prolog(&sandbox, &job(0))
        .wait()
        .exits(0)
        .prints("")
        .mentions("nothing reserved: getgpu: no free");
    // A job that does not ask is promised nothing.
    quiet(hook(&sandbox, "prolog", "", &job(1), ""));
    assert_eq!(sandbox.beside_lock(), [mark(0)]);
    let meta = fs::metadata(sandbox.path("run").join(mark(0))).unwrap();
    assert_eq!((meta.uid(), meta.len(), meta.mode() & 0o777), (0, 0, 0o644));
    quiet(epilog(&sandbox, &job(0)));
    assert!(sandbox.beside_lock().is_empty());
    // Another prolog clears it once the job has no step here and the mark is old, not
    // before.
    for number in [0, 2] {
        prolog(&sandbox, &job(number))
            .wait()
            .exits(0)
            .mentions("nothing reserved");
    }
    quiet(hook(&sandbox, "prolog", "", &job(1), ""));
    assert_eq!(sandbox.beside_lock().len(), 2);
    let title = format!("slurmstepd: [{}.extern]", job(2));
    let step = sandbox.path("work/slurmstepd");
    fs::copy("/bin/sleep", &step).unwrap();
    let start = sandbox
        .command("bash")
        .args(["-c", "exec -a \"$0\" \"$1\" 1000", &title])
        .args([&step]);
    let running = start.limit(Duration::MAX).spawn();
    let comm = format!("/proc/{}/comm", running.pid());
    wait::until("the step runs", || {
        fs::read_to_string(&comm).unwrap_or_default() == "slurmstepd\n"
    });
    quiet(hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_OLD=0",
        &job(1),
        "",
    ));
    assert_eq!(sandbox.beside_lock(), [mark(2)]);
    // Run again with something free: the part is reserved, and the mark goes. A prolog
    // may also wait for that.
    let waiting = hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_WAIT=60",
        &job(2),
        "gpushare4",
    );
    wait::until("it waits in the queue", || {
        sandbox
            .getgpu(["--list", "--json"])
            .run()
            .stdout
            .contains("\"waiting\":1")
    });
    sandbox.getgpu(["--release", "all"]).run().exits(0);
    quiet(waiting);
    assert_eq!(
        (
            sandbox.beside_lock().len(),
            counts(&sandbox).iter().sum::<usize>()
        ),
        (0, 1)
    );
}

#[test]
fn a_prolog_waits_for_a_hung_driver_only_so_long() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    let began = Instant::now();
    let said = hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_TIMEOUT=1",
        &job(0),
        "gpushare4",
    )
    .wait();
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    said.exits(0)
        .mentions("nothing reserved: getgpu did not answer within 1 s");
    assert_eq!(sandbox.beside_lock(), [mark(0)]);
}

/// What a site's file may do to the shell that reads it.
const BROKEN: [&str; 7] = [
    "set -u\necho $NO_SUCH_VARIABLE",
    ". /no/such/file",
    "export 1x=2",
    "exit 0",
    "set -e\nfalse",
    "if [ x ; then",
    "echo 'no end",
];

#[test]
fn an_error_in_the_sites_file_reserves_nothing_and_fails_no_job() {
    if skip::lacks(&[Need::Root, Need::Mounts]) {
        return;
    }
    getgpu_tests::all_at_once(BROKEN, |broken| {
        let sandbox = Sandbox::new("mig4");
        // What the file sets before its error still says who was promised a part.
        let text = format!("export GETGPU_SLURM_SHARES='mine=1/2'\n{broken}\n");
        slurm::with_site_file(&text, || {
            let said = hook(&sandbox, "prolog", "", &job(0), "mine").wait();
            said.exits(0)
                .prints("")
                .mentions("/etc/default/getgpu-slurm has an error");
            assert!(counts(&sandbox).iter().all(|count| *count == 0), "{broken}");
            assert_eq!(sandbox.beside_lock(), [mark(0)], "{broken}");
            hook(&sandbox, "prolog", "", &job(1), "")
                .wait()
                .exits(0)
                .prints("");
            let said = hook(&sandbox, "epilog", "", &job(0), "").wait();
            said.exits(0)
                .prints("")
                .mentions("/etc/default/getgpu-slurm has an error");
        });
        sandbox.assert_clean(Duration::ZERO);
    });
    // One that only looks odd is read: a last command that fails, output, and `set`.
    let sandbox = Sandbox::new("mig4");
    let odd = "GETGPU_SLURM_SHARES='mine=1/2'\necho said; echo said >&2\nset -u\n[ -e /no/such/file ] && PATH=/no";
    slurm::with_site_file(odd, || quiet(hook(&sandbox, "prolog", "", &job(0), "mine")));
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
}
