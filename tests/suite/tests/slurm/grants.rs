//! The grant of a job's only task: all its devices are the task's, whether Slurm names
//! them in CUDA_VISIBLE_DEVICES or not, and none of them is another user's.

use harness::Signal;

use crate::task_prolog_call::{STEP, beside, called, gpus4, hidden, script, told};

/// The only task on its node.
const ALONE: &str = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=1";

#[test]
fn each_device_of_a_grant_is_looked_at() {
    let Some(sandbox) = gpus4() else { return };
    let stranger = sandbox.leased().visible(&sandbox.uuids()[2]).spawn();
    sandbox.until_running(1);
    let grant = format!("{ALONE} CUDA_VISIBLE_DEVICES=0,1,2");
    hidden(&beside(&sandbox, &grant, ""), "1 of 3 in use");
    beside(&sandbox, &grant, "taken = 'run'")
        .exits(0)
        .prints("")
        .mentions("not reserved, CUDA_VISIBLE_DEVICES stays 0,1,2: too few free devices");
    // Not of its grant.
    beside(&sandbox, &format!("{ALONE} CUDA_VISIBLE_DEVICES=0,1"), "").answers("");
    drop(stranger);
}

#[test]
fn a_grant_that_slurm_does_not_name_is_named_or_hidden() {
    let Some(sandbox) = gpus4() else { return };
    let uuids = sandbox.uuids();
    #[rustfmt::skip]
    let cases = [
        ("SLURM_STEP_GPUS=2 SLURM_GPUS_ON_NODE=1", &uuids[2..3]),
        ("SLURM_STEP_GPUS=2,3 SLURM_GPUS_ON_NODE=2", &uuids[2..]),
        ("SLURM_STEP_GPUS=3 SLURM_JOB_GPUS=1,3 SLURM_GPUS_ON_NODE=1", &uuids[3..]),
    ];
    for (variables, expected) in cases {
        let line = format!("export CUDA_VISIBLE_DEVICES={}\n", expected.join(","));
        called(&sandbox, &format!("{ALONE} {variables}")).answers(&line);
    }
    // Two of four, and no word which.
    for tasks in ["1", "2"] {
        let step = format!("{STEP} SLURM_STEP_TASKS_PER_NODE={tasks} SLURM_GPUS_ON_NODE=2");
        hidden(
            &told(&sandbox, &step),
            "nothing says for certain which they are",
        );
    }
}

#[test]
fn what_other_steps_of_the_job_have_is_not_somebody_elses() {
    let Some(sandbox) = gpus4() else { return };
    let first = "dash \"$0\" >lines && touch started; while ! [ -e go ]; do sleep 0.02; done";
    let line = format!("{ALONE} CUDA_VISIBLE_DEVICES=0 dash -c");
    let first = sandbox.words(&line).args([first, &script()]).spawn();
    sandbox.until_file("work/started");
    let both = "SLURM_STEP_TASKS_PER_NODE=1 CUDA_VISIBLE_DEVICES=0,1";
    let ask = |job: &str| beside(&sandbox, &format!("{job} {both}"), "");
    ask("SLURM_JOB_ID=7 SLURM_STEP_ID=1").answers("");
    hidden(&ask("SLURM_JOB_ID=8 SLURM_STEP_ID=0"), "1 of 2 in use");
    first.signal(Signal::SIGKILL);
}
