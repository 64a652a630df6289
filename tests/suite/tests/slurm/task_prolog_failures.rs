//! A task that should have a device and got none sees no GPU at all, and its user is told.

use std::fs;

use getgpu_tests::slurm;
use harness::{Sandbox, skip, wait};

use crate::task_prolog_call::{HIDDEN, NONE, STEP, called, given, script, told};

#[test]
fn a_task_that_should_have_had_a_device_sees_none_and_its_user_is_told_why() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let two = format!("{STEP} CUDA_VISIBLE_DEVICES=0,1 SLURM_STEP_TASKS_PER_NODE=2");
    let one = format!("{STEP} CUDA_VISIBLE_DEVICES=1 SLURM_STEP_TASKS_PER_NODE=1");
    let refused = |sandbox: &Sandbox, variables: &str, status: i32, why: &str| {
        let said = told(sandbox, variables);
        said.exits(0).prints(NONE);
        assert!(
            said.stderr.starts_with(HIDDEN) && said.stderr.contains(why),
            "{why}: {said:#?}"
        );
        let said = told(sandbox, &format!("{variables} GETGPU_SLURM_STRICT=1"));
        said.exits(status)
            .prints("")
            .mentions("getgpu task-prolog: not started: ")
            .mentions(why);
    };
    // What the only task was granted stays, whatever happens.
    let kept = |sandbox: &Sandbox, why: &str| {
        let said = told(sandbox, &one);
        said.exits(0)
            .prints("")
            .mentions("not reserved, CUDA_VISIBLE_DEVICES stays 1: ")
            .mentions(why);
    };
    // In use.
    let others = sandbox.occupy(&sandbox.uuids(), "");
    let said = sandbox
        .command("dash")
        .args(["-c", "dash \"$0\"; :", &script()]);
    let said = two.split(' ').fold(said, |said, pair| {
        said.env(
            pair.split_once('=').unwrap().0,
            pair.split_once('=').unwrap().1,
        )
    });
    said.run()
        .exits(0)
        .prints(NONE)
        .mentions("getgpu: no free device: 2 of 2 in use");
    drop(others);
    sandbox.kill_programs();
    wait::until("all is free", || sandbox.running() == 0);
    // Settings that nobody understands, a command that is not there, a driver that is
    // not, one that hangs.
    sandbox.set_settings("nonsense = 1");
    refused(&sandbox, &two, 2, "nonsense");
    kept(&sandbox, "nonsense");
    sandbox.set_settings("");
    for (variables, status, why) in [
        (
            format!("{two} PATH=/usr/bin:/bin"),
            127,
            "getgpu is not installed on this node",
        ),
        (
            format!("{STEP} GETGPU_SLURM=yes PATH=/usr/bin:/bin"),
            127,
            "getgpu is not installed on this node",
        ),
        (format!("{STEP} GETGPU_SLURM=--share=many"), 2, "many"),
        (
            format!("{STEP} GETGPU_SLURM=--help"),
            2,
            "GETGPU_SLURM=--help: with these options getgpu chooses no device",
        ),
        (
            format!("{STEP} GETGPU_SLURM=--version"),
            2,
            "GETGPU_SLURM=--version: with these options getgpu chooses no device",
        ),
    ] {
        refused(&sandbox, &variables, status, why);
    }
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    refused(
        &sandbox,
        &format!("{two} GETGPU_SLURM_TIMEOUT=1"),
        124,
        "getgpu did not answer within 1 s",
    );
    let sandbox = Sandbox::builder("gpus4").without_library().build();
    refused(&sandbox, &two, 3, "no NVIDIA driver on this node");
    refused(
        &sandbox,
        &format!("{STEP} GETGPU_SLURM=yes"),
        3,
        "no NVIDIA driver on this node",
    );
    kept(&sandbox, "no NVIDIA driver on this node");
}

#[test]
fn a_marked_job_sees_no_gpu() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let mark = sandbox.file("run/slurm-7", "", 0o644);
    let why = "job 7 asked for a part of a GPU and none was free on this node";
    let step = "SLURM_JOB_ID=7 SLURM_STEP_ID=0";
    for variables in [
        step.to_owned(),
        "SLURM_JOB_ID=7 SLURM_NTASKS=4".to_owned(),
        format!("{step} CUDA_VISIBLE_DEVICES=0 SLURM_STEP_TASKS_PER_NODE=1"),
        format!("{step} GETGPU_SLURM=no"),
        format!("{step} GETGPU_SLURM=yes"),
        "SLURM_JOB_ID=6 SLURM_STEP_ID=0 SLURM_JOB_ID_HET_GROUP_0=6 SLURM_JOB_ID_HET_GROUP_1=7"
            .to_owned(),
    ] {
        told(&sandbox, &variables)
            .exits(0)
            .prints(NONE)
            .says(&[&format!("{HIDDEN}{why}")]);
    }
    let strict = told(&sandbox, &format!("{step} GETGPU_SLURM_STRICT=1"));
    strict
        .exits(1)
        .prints("")
        .says(&[&format!("getgpu task-prolog: not started: {why}")]);
    // Another's mark.
    called(&sandbox, "SLURM_JOB_ID=70 SLURM_STEP_ID=0")
        .exits(0)
        .prints("");
    fs::remove_file(mark).unwrap();
    called(&sandbox, step).exits(0).prints("");
}

#[test]
fn an_error_in_the_sites_file_gives_nothing_to_those_who_should_have_something() {
    if skip::lacks(&[skip::Need::Root, skip::Need::Mounts]) {
        return;
    }
    for broken in [
        "set -u\necho $NO_SUCH_VARIABLE",
        ". /no/such/file",
        "export 1x=2",
        "exit 0",
        "set -e\nfalse",
        "if [ x ; then",
        "readonly why share",
    ] {
        let sandbox = Sandbox::new("gpus4");
        slurm::with_site_file(&format!("GETGPU_SLURM_TASKS=both\n{broken}\n"), || {
            called(&sandbox, STEP).exits(0).prints("");
            let line =
                format!("{HIDDEN}/etc/default/getgpu-slurm has an error, so nothing is reserved");
            for asks in [
                "GETGPU_SLURM=yes",
                "CUDA_VISIBLE_DEVICES=0,1 SLURM_STEP_TASKS_PER_NODE=2",
            ] {
                told(&sandbox, &format!("{STEP} {asks}"))
                    .exits(0)
                    .prints(NONE)
                    .says(&[&line]);
            }
            let alone = told(
                &sandbox,
                &format!("{STEP} CUDA_VISIBLE_DEVICES=0 SLURM_STEP_TASKS_PER_NODE=1"),
            );
            alone.exits(0).prints("").mentions("has an error");
        });
    }
    // One that only looks odd is read.
    let sandbox = Sandbox::new("gpus4");
    for odd in [
        "set -u\necho said\n[ -e /no/such/file ] && PATH=/no".to_owned(),
        "IFS=,; wrong=yes; share=1/3; options=--help".to_owned(),
        format!("PATH={}", sandbox.text("bin")),
    ] {
        let text = format!("GETGPU_SLURM_TASKS=both\n{odd}\n");
        slurm::with_site_file(&text, || given(&sandbox, STEP));
    }
}
