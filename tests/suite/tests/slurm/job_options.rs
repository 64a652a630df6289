//! Options that a job gives in GETGPU_SLURM choose within what its task was given: they do not
//! replace how the grant is divided, unless they say otherwise, and never give one device twice.

use std::time::Duration;

use getgpu_tests::listing;
use harness::{Running, Sandbox, wait};

use crate::task_prolog_call::{beside, gpus4, hidden, script, told};

/// A task of a step of two on this grant, which runs until it is dropped.
fn first_task(sandbox: &Sandbox, options: &str) -> Running {
    let task = "dash \"$0\" >lines && touch started; exec sleep 1000";
    let _ = std::fs::remove_file(sandbox.path("work/started"));
    let line = format!("{} dash -c", of_two(0, options));
    let task = sandbox.words(&line).args([task, &script()]);
    let task = task.limit(Duration::MAX).spawn();
    sandbox.until_file("work/started");
    task
}

fn of_two(number: usize, options: &str) -> String {
    format!(
        "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=2 SLURM_PROCID={number} \
         SLURM_LOCALID={number} CUDA_VISIBLE_DEVICES=0 GETGPU_SLURM={options}"
    )
}

#[test]
fn options_of_a_job_choose_within_its_tasks_part() {
    let Some(sandbox) = gpus4() else { return };
    for options in ["--wait=2s", "--policy=pack"] {
        let first = first_task(&sandbox, options);
        let second = format!("{} dash -c", of_two(1, options));
        let both = sandbox.words(&second).args([
            "dash \"$0\"; getgpu --list --json --ignore-grant >list",
            &script(),
        ]);
        let line = format!("export CUDA_VISIBLE_DEVICES={}\n", sandbox.uuids()[0]);
        both.run().exits(0).says(&[]).shows(&line);
        let text = std::fs::read_to_string(sandbox.path("work/list")).unwrap();
        let listing: serde_json::Value = serde_json::from_str(&text).unwrap();
        let device = listing::device(&listing, &sandbox.uuids()[0]);
        let holders = device["holders"].as_array().unwrap();
        let halves = holders.iter().filter(|holder| holder["share"] == 0.5);
        assert_eq!(halves.count(), 2, "{options}: {device}");
        drop(first);
        wait::until("their reservations end", || !sandbox.locked());
    }
    // The only task has its whole grant.
    let alone = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=1";
    let outcome = told(
        &sandbox,
        &format!("{alone} CUDA_VISIBLE_DEVICES=1,2 GETGPU_SLURM=--wait=2s"),
    );
    outcome.exits(0).prints("");
}

#[test]
fn no_two_tasks_have_one_whole_device() {
    let Some(sandbox) = gpus4() else { return };
    for options in ["--count=1", "--share=1/1"] {
        let first = first_task(&sandbox, options);
        hidden(&beside(&sandbox, &of_two(1, options), ""), "1 of 1 in use");
        drop(first);
        wait::until("its reservation ends", || !sandbox.locked());
    }
}
