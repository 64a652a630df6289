//! Prolog and Epilog of one job, called by hand.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use getgpu_tests::{OTHER, listing, slurm};
use harness::skip::{self, Need};
use harness::{Command, Outcome, Running, Sandbox, copy_program};

/// Four devices, where the hooks can be called; none: it has been said.
pub(crate) fn mig4() -> Option<Sandbox> {
    (!skip::lacks(&[Need::Root])).then(|| Sandbox::new("mig4"))
}

/// Numbers of jobs that no other test on this host has: what runs for a job is looked for on
/// the whole host. The tests of one process are told apart by their threads.
pub(crate) fn job(number: u32) -> String {
    static TESTS: AtomicU32 = AtomicU32::new(0);
    thread_local!(static TEST: u32 = TESTS.fetch_add(1, Ordering::Relaxed));
    let test = TEST.with(|test| *test);
    ((std::process::id() % 100_000 * 100 + test) * 100 + number).to_string()
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
    let variables = format!("SLURM_JOB_ID={job} SLURM_JOB_UID={OTHER} SLURM_JOB_PARTITION=main");
    let line = format!("env -i {variables} SLURM_JOB_CONSTRAINTS={constraints} /bin/sh -c");
    let command = sandbox.words(&line).args([script]).directory("/");
    command.limit(Duration::from_secs(90)).spawn()
}

/// One that has to end well and say nothing.
#[track_caller]
pub(crate) fn quiet(hook: Running) -> Outcome {
    let outcome = hook.wait();
    outcome.answers("");
    outcome
}

pub(crate) fn prolog(sandbox: &Sandbox, number: &str) -> Running {
    hook(sandbox, "prolog", "", number, "h100&[gpushare4*2]")
}

pub(crate) fn epilog(sandbox: &Sandbox, number: &str) -> Running {
    hook(sandbox, "epilog", "", number, "")
}

/// A process of this name (comm in /proc) that sleeps, with these words for its title.
pub(crate) fn sleeper(sandbox: &Sandbox, name: &str, title: &str) -> Command {
    let file = sandbox.path("work").join(name);
    if !file.exists() {
        copy_program("/bin/sleep", &file);
    }
    let start = ["-c", "exec -a \"$0\" \"$1\" 1000", title];
    let command = sandbox.command("bash").args(start).args([file]);
    command.limit(Duration::MAX)
}

/// Whether a process has this name by now.
pub(crate) fn is_called(pid: i32, name: &str) -> bool {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    comm.is_ok_and(|comm| comm.trim_end() == name)
}

/// How many jobs have a part of each device.
pub(crate) fn counts(sandbox: &Sandbox) -> Vec<usize> {
    let listing = listing::json(sandbox);
    listing::devices(&listing)
        .iter()
        .map(|device| device["holders"].as_array().map_or(0, Vec::len))
        .collect()
}
