//! What a site and its jobs may add to the hooks: a TaskProlog of the site's own that calls
//! this one, lists of the site, and variables of a job that must not count.

use std::os::unix::fs::chown;
use std::time::Duration;

use getgpu_tests::OTHER;
use harness::skip::{self, Need};
use harness::{Sandbox, Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::task_prolog_call::{hidden, script};

/// A job could name settings of its own, or a lock that no other program looks at.
#[test]
fn files_that_a_job_names_do_not_count() {
    if skip::lacks(&[Need::Root, Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    sandbox.file("run/slurm-7", "", 0o644);
    let call = |settings: &std::path::Path| {
        let dash = sandbox
            .command("dash")
            .args(["-c", "dash \"$0\"; :", &script()]);
        let named = dash.env("GETGPU_CONFIG", settings);
        named.env("SLURM_JOB_ID", "7").run()
    };
    // The site's settings say that such a task is not started.
    let settings = sandbox.file("strict.toml", "[slurm]\nstrict = true\n", 0o644);
    call(&settings).prints("").mentions("not started");
    chown(&settings, Some(OTHER), None).unwrap();
    hidden(&call(&settings), "started without a GPU");
}

/// slurmstepd sleeps for a second if it finds in a step what held its devices.
#[test]
fn a_task_epilog_waits_for_what_outlives_its_task() {
    if skip::lacks(&[Need::Root, Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let task = "dash \"$0\" >lines && touch started; exec sleep 1000";
    let start = sandbox.command("dash").args(["-c", task, &script()]);
    let start = start
        .env("SLURM_JOB_ID", "7")
        .env("CUDA_VISIBLE_DEVICES", "0");
    let task = start.spawn();
    wait::until("its hook has exited", || {
        sandbox.path("work/started").exists()
    });
    let epilog = || {
        let dash = sandbox.command("dash").args([script()]);
        let called = dash.env("SLURM_SCRIPT_CONTEXT", "epilog_task").run();
        called.exits(0).prints("").says(&[]);
        called.elapsed
    };
    // The task runs: nothing is waited for.
    assert!(epilog() < Duration::from_millis(900));
    let holder = Pid::from_raw(sandbox.holders()[0].pid);
    kill(holder, Signal::SIGSTOP).unwrap();
    task.signal(Signal::SIGKILL);
    task.wait();
    assert!(epilog() >= Duration::from_millis(900), "it is still there");
    kill(holder, Signal::SIGCONT).unwrap();
    epilog();
    sandbox.assert_clean(Duration::ZERO);
}
