//! The TaskEpilog, and what outlives its task.

use std::time::Duration;

use harness::{Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::task_prolog_call::{gpus4, script};

/// slurmstepd sleeps for a second if it finds in a step what held its devices.
#[test]
fn a_task_epilog_waits_for_what_outlives_its_task() {
    let Some(sandbox) = gpus4() else { return };
    let task = "dash \"$0\" >lines && touch started; exec sleep 1000";
    let start = sandbox.command("dash").args(["-c", task, &script()]);
    let task = start.env("SLURM_JOB_ID", "7").visible("0").spawn();
    sandbox.until_file("work/started");
    let epilog = || {
        let dash = sandbox.command("dash").args([script()]);
        let called = dash.env("SLURM_SCRIPT_CONTEXT", "epilog_task").run();
        called.exits(0).prints("").says(&[]);
        called.elapsed
    };
    // The task runs: nothing is waited for.
    wait::until("one ends before that second", || {
        epilog() < Duration::from_millis(900)
    });
    let holder = Pid::from_raw(sandbox.holders()[0].pid);
    kill(holder, Signal::SIGSTOP).unwrap();
    task.signal(Signal::SIGKILL);
    task.wait();
    assert!(epilog() >= Duration::from_millis(900), "it is still there");
    kill(holder, Signal::SIGCONT).unwrap();
    epilog();
    sandbox.assert_clean();
}
