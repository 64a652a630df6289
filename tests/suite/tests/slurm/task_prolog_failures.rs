//! A task that should have a device and got none sees no GPU at all, and its user is told.

use std::fs;

use getgpu_tests::slurm;
use harness::{Sandbox, skip, wait};

use crate::task_prolog_call::{
    HIDDEN, NONE, STEP, called, device, given, script, taken_apart, told,
};

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
        let said = told(sandbox, &format!("{variables} strict=true"));
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
        .mentions("no free device: 2 of 2 in use");
    drop(others);
    sandbox.kill_programs();
    wait::until("all is free", || sandbox.running() == 0);
    // Settings that nobody understands, a command that is not there, a driver that is
    // not, one that hangs.
    sandbox.set_settings("nonsense = 1");
    told(&sandbox, &two)
        .exits(0)
        .prints(NONE)
        .mentions("nonsense");
    kept(&sandbox, "nonsense");
    sandbox.set_settings("");
    for (variables, status, why) in [
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
        &format!("{two} timeout=1"),
        3,
        "NVML did not answer within 1 s",
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
    let why = "job 7 asked for a part of a GPU: it could not be reserved on this node";
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
    let strict = told(&sandbox, &format!("{step} strict=true"));
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
fn without_getgpu_a_task_that_should_have_a_device_sees_none() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let call = |variables: &str| {
        let dash = skip::tool("dash").unwrap();
        let command = sandbox
            .command(dash)
            .args([script()])
            .env("PATH", "/nonexistent");
        variables
            .split(' ')
            .fold(command, |command, pair| {
                let (name, value) = pair.split_once('=').unwrap();
                command.env(name, value)
            })
            .run()
    };
    for asks in [
        "CUDA_VISIBLE_DEVICES=0,1",
        "GETGPU_SLURM=yes",
        "GETGPU_SLURM_PART=half",
    ] {
        call(&format!("{STEP} {asks}")).exits(0).prints(NONE);
    }
    call(STEP).exits(0).prints("");
}

/// slurmd leaves the prolog out for some jobs that are requeued.
#[test]
fn a_job_whose_prolog_never_ran_sees_no_gpu() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let promised = format!("{STEP} GETGPU_SLURM_PART=gpushare4");
    let why = "job 7: gpushare4 was promised, and no prolog has reserved it on this node";
    for more in [
        "",
        " CUDA_VISIBLE_DEVICES=0 SLURM_STEP_TASKS_PER_NODE=1",
        " GETGPU_SLURM=no",
    ] {
        told(&sandbox, &format!("{promised}{more}"))
            .exits(0)
            .prints(NONE)
            .says(&[&format!("{HIDDEN}{why}")]);
    }
    sandbox
        .getgpu(["--hold", "--share", "1/4", "--tag", "slurm-7"])
        .run()
        .exits(0);
    let said = sandbox
        .command("dash")
        .args([script()])
        .env("GETGPU_SLURM_PART", "gpushare4")
        .env("SLURM_JOB_ID", "7")
        .run();
    device(&sandbox, &said.exits(0).stdout);
}

/// The only task of a job keeps its grant, unless somebody else has the device.
#[test]
fn a_granted_device_that_somebody_else_has_is_hidden_from_the_only_task() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let stranger = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever"])
        .visible(&sandbox.uuids()[1])
        .spawn();
    sandbox.until_running(1);
    let one = format!("{STEP} CUDA_VISIBLE_DEVICES=1 SLURM_STEP_TASKS_PER_NODE=1");
    let call = |settings: &str| {
        let (variables, settings) = taken_apart(settings);
        assert!(variables.is_empty());
        let command = sandbox
            .command("dash")
            .args(["-c", "dash \"$0\"; :", &script()]);
        let command = command.env("GETGPU_CONFIG", slurm::with_settings(&sandbox, &settings));
        one.split(' ')
            .fold(command, |command, pair| {
                let (name, value) = pair.split_once('=').unwrap();
                command.env(name, value)
            })
            .run()
    };
    call("").exits(0).prints(NONE).mentions("1 of 1 in use");
    call("taken=run")
        .exits(0)
        .prints("")
        .mentions("not reserved, CUDA_VISIBLE_DEVICES stays 1: no free device");
    drop(stranger);
}

/// A job chooses within its grant, with options that choose, as far as the site allows.
#[test]
fn options_of_a_job_never_leave_its_grant() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let two = format!("{STEP} CUDA_VISIBLE_DEVICES=0,1 SLURM_STEP_TASKS_PER_NODE=2");
    for (asked, settings, why) in [
        (
            "--ignore-grant",
            "",
            "GETGPU_SLURM=--ignore-grant: a job stays within its grant",
        ),
        ("--list", "", "with these options getgpu chooses no device"),
        (
            "--policy=first",
            "job_options=false",
            "only yes and no are allowed here",
        ),
    ] {
        told(&sandbox, &format!("{two} GETGPU_SLURM={asked} {settings}"))
            .exits(0)
            .prints(NONE)
            .mentions(why);
    }
    let last = given(&sandbox, &format!("{two} GETGPU_SLURM=--policy=last"));
    assert_eq!(last, sandbox.uuids()[1]);
    given(
        &sandbox,
        &format!("{two} GETGPU_SLURM=yes job_options=false"),
    );
}

#[test]
fn tasks_that_nothing_is_given_may_load_the_library() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let loaded = called(&sandbox, &format!("{STEP} auto=true"));
    let line = loaded.exits(0).stdout.clone();
    assert!(
        line.starts_with("export CUDA_INJECTION64_PATH=/") && line.ends_with("/libcudawrap.so\n"),
        "{line}"
    );
    called(
        &sandbox,
        &format!("{STEP} auto=true CUDA_INJECTION64_PATH=/own"),
    )
    .exits(0)
    .prints("");
}
