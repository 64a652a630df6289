//! The same script as TaskEpilog: waits until what reserved the devices of exited tasks has
//! exited too. A slurmstepd that finds it in the step's cgroup sleeps for a second.

use std::time::Duration;

use getgpu_linux::{
    Stat,
    procfs::{self, process_memory},
};
use getgpu_lock::{HOLDER_NAME, HolderProcess};

use super::variable;
use getgpu_core::holder::exit_watch::ExitWatch;

/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether slurmstepd calls the script after its task (`SLURM_SCRIPT_CONTEXT`).
pub fn is_called() -> bool {
    variable("SLURM_SCRIPT_CONTEXT").as_deref() == Some("epilog_task")
}

/// Waits. Nothing depends on it but a second.
pub fn run() {
    let uid = nix::unistd::geteuid().as_raw();
    let pids = procfs::pids().into_iter();
    let own = pids.filter(|pid| procfs::may_be_of(*pid, uid));
    ExitWatch::new(own.filter_map(outlives_task)).have_exited(Some(PATIENCE));
}

/// A holder whose task has exited, with its start; one that is just exiting shows no words
/// any more.
fn outlives_task(pid: i32) -> Option<(i32, u64)> {
    procfs::comm(pid).filter(|name| name == HOLDER_NAME)?;
    let start = Stat::read(pid)?.start;
    let holder = HolderProcess::parse(pid, start, &process_memory::cmdline(pid));
    holder
        .is_none_or(|holder| holder.args.is_ending())
        .then_some((pid, start))
}
