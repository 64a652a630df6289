//! A program that is started by its link writes nothing of cudawrap's to standard error
//! while all is well: bedpostx_gpu's monitor, for one, kills its job as soon as a file of
//! errors is not empty.

use std::fs;
use std::time::Duration;

use getgpu_tests::listing;
use getgpu_tests::wrapped::wrap;
use harness::skip::{self, Need};
use harness::{Sandbox, wait};

/// Watches the errors of a job, and kills it as soon as there are any.
const MONITOR: &str = r#"#!/bin/bash
: >errors
"$@" 2>errors &
job=$!
while kill -0 $job 2>/dev/null; do
    if [ -s errors ]; then kill $job; cat errors; echo killed; exit 1; fi
    sleep 0.02
done
wait $job
"#;

fn node(settings: &str) -> Sandbox {
    let sandbox = Sandbox::with("mig4", settings);
    wrap(&sandbox, "opt", "app", "sim-cuda");
    sandbox.file("work/monitor", MONITOR, 0o755);
    sandbox
}

/// Occupies all devices, which come free while the program waits.
fn with_full_node(sandbox: &Sandbox, line: &str) -> harness::Outcome {
    sandbox.line("-q -n 4 --for=600 --tag all");
    let waiting = sandbox.words(line).limit(Duration::from_secs(60)).spawn();
    wait::until("it waits", || listing::waiting(sandbox) == 1);
    sandbox.ask("--release all").exits(0);
    waiting.wait()
}

#[test]
fn a_monitor_that_kills_on_output_lets_a_waiting_program_run() {
    for (settings, line) in [
        ("wait = 'forever'", "@/work/monitor @/opt/app"),
        ("", "CUDAWRAP_WAIT=forever @/work/monitor @/opt/app"),
        (
            "max_wait = '1h'",
            "CUDAWRAP_WAIT=forever @/work/monitor @/opt/app",
        ),
    ] {
        let sandbox = node(settings);
        let outcome = with_full_node(&sandbox, line);
        outcome.exits(0).says(&[]);
        assert!(outcome.stdout.starts_with("RUN "), "{outcome:#?}");
    }
    // Who types cudawrap asked to know, and on a terminal a person sees that it waits.
    let sandbox = node("wait = 'forever'");
    let line = "waiting for a device: 4 of 4 in use";
    let typed = with_full_node(&sandbox, "cudawrap --wait -- sim-cuda");
    typed.exits(0).mentions(line);
    if !skip::lacks(&[Need::Tool("script")]) {
        let terminal = "script -qec @/opt/app /dev/null";
        let shown = with_full_node(&sandbox, terminal);
        assert!(shown.output().contains(line), "{shown:#?}");
    }
}

/// Every start that ends in the program running, but for the exceptions below.
#[test]
fn a_start_that_ends_in_the_program_says_nothing() {
    let rank = "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=3 OMPI_COMM_WORLD_RANK=0";
    #[rustfmt::skip]
    let cases = [
        ("", "@/opt/app"),
        ("", "CUDA_VISIBLE_DEVICES=$(getgpu) @/opt/app"),
        ("", "d=$(getgpu --share 1/2 --hold); CUDA_VISIBLE_DEVICES=$d @/opt/app --max 2"),
        ("", "CUDA_VISIBLE_DEVICES=$ONE @/opt/app"),
        ("", "CUDA_VISIBLE_DEVICES=$ONE,$TWO @/opt/app"),
        ("", "CUDA_VISIBLE_DEVICES=0 @/opt/app"),
        ("", "CUDA_VISIBLE_DEVICES= @/opt/app; [ $? = 100 ]"),
        ("", "CUDAWRAP_DISABLE=1 @/opt/app"),
        ("", "CUDAWRAP_SHARE=1/2 @/opt/app --max 2"),
        ("", "CUDAWRAP_WAIT=1h @/opt/app"),
        ("", "CUDAWRAP_NONSENSE=1 @/opt/app"),
        ("max_wait = '1s'", "CUDAWRAP_WAIT=1h @/opt/app"),
        ("unknown = 1", "@/opt/app"),
        ("excluded = ['nothing']", "@/opt/app"),
        ("bind = true\nshare = '1/2'", "@/opt/app --max 2"),
        ("", &format!("export CUDA_VISIBLE_DEVICES=$ONE,$TWO; {rank} @/opt/app")),
        ("", &format!("export CUDA_VISIBLE_DEVICES=0; {rank} @/opt/app")),
    ];
    for (settings, script) in cases {
        let outcome = started(settings, script);
        assert_eq!(outcome, "", "{settings} {script}");
    }
}

/// What went wrong, or changes what the program gets, is said however it is started.
#[test]
fn what_changes_the_result_is_said_in_one_line() {
    #[rustfmt::skip]
    let cases = [
        ("a device that another program has", "", "cudawrap -- sim-cuda --shared --run 600 & until [ -s $SIM_NODE/runs.log ]; do sleep 0.01; done; \
            u=$(getgpu --list --json | grep -o 'MIG-[^\"]*' | head -4 | while read d; do grep -q $d $SIM_NODE/runs.log && echo $d; done); \
            CUDA_VISIBLE_DEVICES=$u @/opt/app --shared; kill $!", "running there because CUDA_VISIBLE_DEVICES names it"),
        ("a device that NVML does not know", "", "CUDA_VISIBLE_DEVICES=9 @/opt/app; true", "the program runs on what CUDA_VISIBLE_DEVICES names"),
        ("a share that the device cannot be", "", "CUDAWRAP_SHARE=900G CUDA_VISIBLE_DEVICES=$ONE @/opt/app", "running without a lease"),
        ("a rank that is no number", "", "LOCAL_RANK=x @/opt/app", "ignored"),
        ("a switch that is neither on nor off", "", "CUDAWRAP_DISABLE=maybe @/opt/app", "ignored"),
    ];
    for (name, settings, script, line) in cases {
        let said = started(settings, script);
        assert_eq!(said.lines().count(), 1, "{name}: {said}");
        assert!(said.contains(line), "{name}: {said}");
    }
}

/// What the script's programs left in a file on standard error.
#[track_caller]
fn started(settings: &str, script: &str) -> String {
    let sandbox = node(settings);
    let uuids = sandbox.uuids();
    let script = script.replace("@/", &format!("{}/", sandbox.root().display()));
    let file = sandbox.file("work/stderr", "", 0o666);
    let shell = sandbox.shell("bash", &script).env("ONE", &uuids[0]);
    let outcome = shell
        .env("TWO", &uuids[1])
        .stderr(fs::File::create(&file).unwrap())
        .run();
    outcome.exits(0);
    fs::read_to_string(file).unwrap()
}
