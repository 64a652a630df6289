//! Prolog and Epilog of one job, called by hand.

use std::time::Duration;

use getgpu_tests::{OTHER, listing, slurm};
use harness::{Outcome, Running, Sandbox};

/// Numbers of jobs that no other test on this host has.
pub(crate) fn job(number: u32) -> String {
    (std::process::id() * 100 + number).to_string()
}

/// One of the hooks for a job of [`OTHER`] that asks for a quarter, or for one that does
/// not.
pub(crate) fn hook(
    sandbox: &Sandbox,
    name: &str,
    settings: &str,
    job: &str,
    constraints: &str,
) -> Running {
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
pub(crate) fn quiet(hook: Running) -> Outcome {
    let outcome = hook.wait();
    outcome.exits(0).prints("").says(&[]);
    outcome
}

pub(crate) fn prolog(sandbox: &Sandbox, number: &str) -> Running {
    hook(sandbox, "prolog", "", number, "h100&[gpushare4*2]")
}

pub(crate) fn epilog(sandbox: &Sandbox, number: &str) -> Running {
    hook(sandbox, "epilog", "", number, "")
}

/// How many jobs have a part of each device.
pub(crate) fn counts(sandbox: &Sandbox) -> Vec<usize> {
    let listing = listing::json(sandbox);
    listing["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["holders"].as_array().map_or(0, Vec::len))
        .collect()
}
