//! Ranks that wait for each other, as in MPI_Init: none of them waits for a device on its
//! own, since those that have one would hold it for ever, and the refusal has the line that
//! is right.

use std::time::Duration;

use getgpu_tests::wrapped::wrap_script;
use harness::{Sandbox, wait};

/// An mpirun: starts ranks, and ends with the first status that is not 0, after it has
/// ended the others.
const MPIRUN: &str = r#"#!/bin/bash
shift; size=$1; shift
for i in $(seq 0 $((size - 1))); do
    OMPI_COMM_WORLD_LOCAL_RANK=$i OMPI_COMM_WORLD_LOCAL_SIZE=$size OMPI_COMM_WORLD_RANK=$i "$@" &
done
for i in $(seq $size); do
    wait -n || { status=$?; kill $(jobs -p) 2>/dev/null; wait; exit $status; }
done
"#;

/// A rank: waits until all are there.
const RANK: &str = r#"#!/bin/bash
mkdir -p there
echo $CUDA_VISIBLE_DEVICES >there/$OMPI_COMM_WORLD_LOCAL_RANK
until [ $(ls there | wc -l) = $OMPI_COMM_WORLD_LOCAL_SIZE ]; do sleep 0.02; done
"#;

fn node() -> Sandbox {
    with_ranks("mig4")
}

fn with_ranks(node: &str) -> Sandbox {
    let sandbox = Sandbox::new(node);
    sandbox.file("work/mpirun", MPIRUN, 0o755);
    sandbox.file("work/rank", RANK, 0o755);
    wrap_script(&sandbox, "opt", "app", RANK);
    sandbox
}

fn run(sandbox: &Sandbox, script: &str) -> harness::Outcome {
    let script = format!("rm -rf there; PATH=$PWD:$PATH; {script}");
    let shell = sandbox.shell("bash", &script);
    shell.limit(Duration::from_secs(30)).run()
}

/// The line that the hint gives.
#[track_caller]
fn line_of(outcome: &harness::Outcome) -> String {
    let mark = "hint: reserve for all ranks before they start: ";
    let mut lines = outcome.stderr.lines();
    let line = lines.find_map(|line| Some(line.split_once(mark)?.1.to_owned()));
    line.unwrap_or_else(|| panic!("no line: {outcome:#?}"))
}

#[test]
fn five_ranks_that_wait_for_each_other_are_told_how() {
    let sandbox = node();
    let app = sandbox.text("opt/app");
    #[rustfmt::skip]
    let cases = [
        ("cudawrap --wait -- ./rank".to_owned(), 125, "--wait: 5 ranks do not wait each on its own"),
        ("cudawrap --wait=1h --share auto -- ./rank".to_owned(), 125, "--wait: 5 ranks do not wait"),
        ("cudawrap -- ./rank".to_owned(), 75, "no free device"),
        ("env CUDAWRAP_WAIT=forever cudawrap -- ./rank".to_owned(), 75, "no free device"),
        (app, 75, "no free device"),
    ];
    for settings in ["", "wait = 'forever'"] {
        sandbox.set_settings(settings);
        for (rank, status, why) in &cases {
            let outcome = run(&sandbox, &format!("mpirun -n 5 {rank}"));
            outcome.exits(*status).mentions(why);
            assert!(!outcome.stderr.contains("joins the queue"), "{outcome:#?}");
            let line = line_of(&outcome);
            let rest = "CUDA_VISIBLE_DEVICES=$(getgpu -n 4 --wait) mpirun -n 5 ";
            assert!(line.starts_with(rest), "{line}");
            // It does what it says.
            let line = line.replace("5 app", &format!("5 {}", sandbox.text("opt/app")));
            run(&sandbox, &line).exits(0);
            let there = sandbox.path("work/there");
            assert_eq!(std::fs::read_dir(there).unwrap().count(), 5);
        }
    }
}

#[test]
fn ranks_with_several_devices_each_are_told_how_and_share_them() {
    let sandbox = with_ranks("gpus4");
    let outcome = run(&sandbox, "mpirun -n 3 cudawrap -n 2 -- ./rank");
    let line = line_of(&outcome);
    assert!(
        line.ends_with("$(getgpu -n 4 --wait) mpirun -n 3 cudawrap -n 2 -- ./rank"),
        "{line}"
    );
    wait::until("what a killed rank had started has ended", || {
        !sandbox.locked()
    });
    run(&sandbox, &line).exits(0).says(&[]);
    // Two on three devices have two each.
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu -n 3) mpirun -n 2 cudawrap -n 2 -- ./rank";
    run(&sandbox, script).exits(0).says(&[]);
}

/// Each job has some of the devices, and none has all that it needs.
#[test]
fn two_jobs_of_three_ranks_never_hold_what_the_other_waits_for() {
    let sandbox = node();
    let job = "mpirun -n 3 cudawrap --wait -- sh -c true";
    let both = run(
        &sandbox,
        &format!("{job} & {job}; a=$?; wait $!; echo $a $?"),
    );
    assert_eq!(both.exits(0).told(), ["125 125"], "{both:#?}");
    assert!(!sandbox.locked());
    let line = "CUDA_VISIBLE_DEVICES=$(getgpu -n 3 --wait) mpirun -n 3 cudawrap -- ./rank";
    let script = format!(
        "mkdir a b; (cd a; PATH=$PWD/..:$PATH; cp ../rank .; {line}) & (cd b; PATH=$PWD/..:$PATH; cp ../rank .; {line}); a=$?; wait $!; echo $a $?"
    );
    let both = run(&sandbox, &script);
    assert_eq!(both.exits(0).told(), ["0 0"], "{both:#?}");
}

#[test]
fn ranks_that_their_grant_serves_may_say_wait() {
    let sandbox = node();
    let grant = sandbox.uuids()[..2].join(",");
    #[rustfmt::skip]
    let cases = [
        (2, "", 0), (5, "", 0), (4, "--share 1/2", 0), (5, "--share 1/2", 125), (3, "--share 1", 125),
    ];
    for (ranks, options, status) in cases {
        let script = format!(
            "export CUDA_VISIBLE_DEVICES={grant}; mpirun -n {ranks} cudawrap --wait {options} -- ./rank"
        );
        let outcome = run(&sandbox, &script);
        outcome.exits(status);
        if status != 0 {
            outcome.mentions("the devices of CUDA_VISIBLE_DEVICES cannot serve all of them");
        }
    }
    // One rank alone waits as any program does.
    let script = "getgpu -q -n 4 --hold=$$ >/dev/null; (sleep 0.5; getgpu -q --release-all) & \
                  unset CUDA_VISIBLE_DEVICES; mpirun -n 1 cudawrap --wait -- ./rank";
    run(&sandbox, script).exits(0);
}

/// A rank that is started again finds what its forebear has left behind: in a place of its own it
/// may wait for the end of that.
#[test]
fn a_rank_that_is_started_again_may_wait_in_a_place_of_its_own() {
    let sandbox = node();
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 2 --hold); \
        mpirun -n 2 cudawrap -- sh -c 'probe --sleep 3 >/dev/null 2>&1 & exit'; \
        mpirun -n 2 cudawrap -- true; echo $?; mpirun -n 2 cudawrap --wait -- true; echo $?";
    let outcome = run(&sandbox, script);
    assert_eq!(outcome.exits(0).told(), ["75", "0"], "{outcome:#?}");
}
