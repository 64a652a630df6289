//! A task that should have a device and got none sees no GPU at all, and its user is told.

use std::fs;

use harness::{Sandbox, copy_program, skip, wait};

use crate::task_prolog_call::{HIDDEN, NONE, STEP, hidden};
use crate::task_prolog_call::{beside, called, given, gpus4, script, told};

#[test]
fn a_task_that_missed_its_device_sees_none_and_tells_the_user() {
    let Some(sandbox) = gpus4() else { return };
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
    // What the only task was granted stays, unless somebody else has it.
    let kept = |sandbox: &Sandbox, why: &str| {
        let said = told(sandbox, &one);
        said.exits(0)
            .prints("")
            .mentions("not reserved, CUDA_VISIBLE_DEVICES stays 1: ")
            .mentions(why);
    };
    // In use.
    let others = sandbox.occupy(&sandbox.uuids(), "");
    hidden(&beside(&sandbox, &two, ""), "no free device: 2 of 2 in use");
    drop(others);
    sandbox.kill_programs();
    wait::until("all is free", || sandbox.running() == 0);
    // Settings that nobody understands, a command that is not there, a driver that is
    // not, one that hangs.
    sandbox.set_settings("nonsense = 1");
    hidden(&told(&sandbox, &two), "nonsense");
    kept(&sandbox, "nonsense");
    sandbox.set_settings("");
    let stranger = sandbox.leased().visible(&sandbox.uuids()[1]).spawn();
    sandbox.until_running(1);
    sandbox.set_settings("nonsense = 1");
    hidden(&beside(&sandbox, &one, ""), " is in use, and ");
    sandbox.set_settings("");
    let by_uuid = one.replace("DEVICES=1", &format!("DEVICES={}", sandbox.uuids()[1]));
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    let said = beside(&sandbox, &by_uuid, "timeout = 1");
    hidden(&said, " is in use, and NVML did not answer");
    sandbox.faults("");
    drop(stranger);
    sandbox.kill_programs();
    wait::until("it is free", || sandbox.running() == 0);
    for (asked, why) in [("--share=many", "many"), ("--help", ""), ("--version", "")] {
        let none = format!("GETGPU_SLURM={asked}: with these options getgpu chooses no device");
        let why = if why.is_empty() { &none } else { why };
        refused(&sandbox, &format!("{STEP} GETGPU_SLURM={asked}"), 2, why);
    }
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    let short = format!("{two} timeout=1");
    refused(&sandbox, &short, 3, "NVML did not answer within 1 s");
    let sandbox = Sandbox::builder("gpus4").without_library().build();
    let why = "no NVIDIA driver on this node";
    refused(&sandbox, &two, 3, why);
    refused(&sandbox, &format!("{STEP} GETGPU_SLURM=yes"), 3, why);
    kept(&sandbox, why);
}

#[test]
fn a_marked_job_sees_no_gpu() {
    let Some(sandbox) = gpus4() else { return };
    let mark = sandbox.file("run/slurm-7", "", 0o644);
    let why = "job 7 asked for a part of a GPU: it could not be reserved on this node";
    let step = "SLURM_JOB_ID=7 SLURM_STEP_ID=0";
    #[rustfmt::skip]
    let cases = [
        "SLURM_JOB_ID=7 SLURM_STEP_ID=0", "SLURM_JOB_ID=7 SLURM_NTASKS=4",
        "SLURM_JOB_ID=7 SLURM_STEP_ID=0 CUDA_VISIBLE_DEVICES=0 SLURM_STEP_TASKS_PER_NODE=1",
        "SLURM_JOB_ID=7 SLURM_STEP_ID=0 GETGPU_SLURM=no",
        "SLURM_JOB_ID=7 SLURM_STEP_ID=0 GETGPU_SLURM=yes",
        "SLURM_JOB_ID=6 SLURM_STEP_ID=0 SLURM_JOB_ID_HET_GROUP_0=6 SLURM_JOB_ID_HET_GROUP_1=7",
    ];
    let line = format!("{HIDDEN}{why}");
    for variables in cases {
        told(&sandbox, variables)
            .exits(0)
            .prints(NONE)
            .says(&[&line]);
    }
    let strict = told(&sandbox, &format!("{step} strict=true"));
    let line = format!("getgpu task-prolog: not started: {why}");
    strict.exits(1).prints("").says(&[&line]);
    // Another's mark.
    called(&sandbox, "SLURM_JOB_ID=70 SLURM_STEP_ID=0").answers("");
    fs::remove_file(mark).unwrap();
    called(&sandbox, step).answers("");
}

/// What the prefix's file promises a job holds also where the file of the job's user is wrong.
#[test]
fn settings_of_a_prefix_hold_beside_a_wrong_file_of_the_users() {
    let Some(sandbox) = gpus4().filter(|_| !skip::lacks(&[skip::Need::Bare])) else {
        return;
    };
    fs::create_dir_all(sandbox.path("conda/bin")).unwrap();
    let getgpu = sandbox.path("conda/bin/getgpu");
    copy_program(sandbox.path("bin/getgpu"), &getgpu);
    sandbox.file("home/getgpu/config.toml", "linger = 'x'", 0o644);
    let shares = "[slurm]\nshares = ['course=1/4']\n";
    let call = |strict: &str| {
        let text = format!("{shares}{strict}");
        sandbox.file("conda/etc/getgpu/config.toml", &text, 0o644);
        let line = format!("{} --slurm task-prolog", getgpu.display());
        let task = sandbox.bare("dash").args(["-c", &line]);
        task.env_remove("GETGPU_CONFIG")
            .env("XDG_CONFIG_HOME", sandbox.path("home"))
            .env("SLURM_JOB_ID", "7")
            .env("SLURM_STEP_ID", "0")
            .env("SLURM_JOB_PARTITION", "course")
            .run()
    };
    let why = "job 7: course was promised, and no prolog has reserved it on this node";
    call("").exits(0).prints(NONE);
    call("strict = true").exits(1).prints("").mentions(why);
}

#[test]
fn without_getgpu_a_task_that_should_have_a_device_sees_none() {
    let Some(sandbox) = gpus4() else { return };
    let dash = skip::tool("dash").unwrap();
    let call = |variables: &str| {
        let line = format!("{variables} PATH=/nonexistent {}", dash.display());
        sandbox.words(&line).args([script()]).run()
    };
    #[rustfmt::skip]
    let cases = ["CUDA_VISIBLE_DEVICES=0,1", "GETGPU_SLURM=yes", "GETGPU_SLURM_PART=half"];
    for asks in cases {
        call(&format!("{STEP} {asks}")).exits(0).prints(NONE);
    }
    call(STEP).exits(0).prints("");
}

/// A job chooses within its grant, with options that choose, as far as the site allows.
#[test]
fn options_of_a_job_never_leave_its_grant() {
    let Some(sandbox) = gpus4() else { return };
    let two = format!("{STEP} CUDA_VISIBLE_DEVICES=0,1 SLURM_STEP_TASKS_PER_NODE=2");
    #[rustfmt::skip]
    let cases = [
        ("--ignore-grant", "", "GETGPU_SLURM=--ignore-grant: a job stays within its grant"),
        ("--list", "", "with these options getgpu chooses no device"),
        ("--policy=first", "job_options=false", "only yes and no are allowed here"),
    ];
    for (asked, settings, why) in cases {
        let said = told(&sandbox, &format!("{two} GETGPU_SLURM={asked} {settings}"));
        hidden(&said, why);
    }
    let last = given(&sandbox, &format!("{two} GETGPU_SLURM=--policy=last"));
    assert_eq!(last, sandbox.uuids()[1]);
    let yes = format!("{two} GETGPU_SLURM=yes job_options=false");
    given(&sandbox, &yes);
}

#[test]
fn tasks_that_nothing_is_given_may_load_the_library() {
    let Some(sandbox) = gpus4() else { return };
    let loaded = called(&sandbox, &format!("{STEP} auto=true"));
    let line = loaded.output();
    assert!(
        line.starts_with("export CUDA_INJECTION64_PATH=/") && line.ends_with("/libcudawrap.so\n"),
        "{line}"
    );
    let own = format!("{STEP} auto=true CUDA_INJECTION64_PATH=/own");
    called(&sandbox, &own).answers("");
    let no = format!("{STEP} auto=true GETGPU_SLURM=no");
    called(&sandbox, &no).answers("");
}
