//! Whom a hook tells something: the system's log and slurmd's, or the user of a task. A
//! task's own stderr is closed in its TaskProlog, so it is opened again where that is
//! allowed, which is to root alone; else `scontrol notify` reaches the job.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use getgpu_choose::syslog;
use getgpu_linux::{kill_and_reap, reap, run_clock, sys};
use getgpu_model::diag::printable;
use nix::unistd::Pid;

use super::variable;

/// How long `scontrol notify` may take.
const NOTIFY: Duration = Duration::from_secs(5);

/// Which tasks of a job notify it of what concerns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Each,
    /// The first one on the node, since all say the same.
    First,
}

/// Tells slurmd's log and the system's.
pub fn log(hook: &str, text: &str) {
    let text = printable(text);
    sys::write_stderr(format!("getgpu {hook}: {text}\n").as_bytes());
    syslog::send(&format!("getgpu-{hook}: {text}"));
}

/// Tells the user of the task that the process `task` becomes.
pub fn user(task: i32, who: Who, text: &str) {
    let text = printable(text);
    // Appended, or the job's file of output would be cut.
    let own = OpenOptions::new()
        .append(true)
        .open(format!("/proc/{task}/fd/2"));
    let line = format!("getgpu task-prolog: {text}\n");
    if own.is_ok_and(|mut own| own.write_all(line.as_bytes()).is_ok()) {
        return;
    }
    let [job, number, local] = ["SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID"]
        .map(|name| variable(name).unwrap_or_default());
    let message = printable(&format!("job {job}, task {number}: {text}"));
    syslog::send(&format!("getgpu-task-prolog: {message}"));
    let first = ["", "0"].contains(&local.as_str());
    if who == Who::Each || first {
        notify(&job, &format!("getgpu task-prolog: {message}"));
    }
}

/// Shows a message in the output of a job (scontrol(1)).
fn notify(job: &str, message: &str) {
    let started = Command::new("scontrol")
        .args(["notify", job, message])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else { return };
    let pid = Pid::from_raw(child.id() as i32);
    if reap(pid, run_clock::now() + NOTIFY).is_none() {
        kill_and_reap(pid);
    }
}
