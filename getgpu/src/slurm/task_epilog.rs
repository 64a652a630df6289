//! The same script as TaskEpilog: waits until what reserved the devices of exited tasks has
//! exited too. A slurmstepd that finds it in the step's cgroup sleeps for a second.

use std::time::Duration;

use getgpu_common::lock::ownership_proof;

use super::{Context, variable};
use crate::holder::exit_watch::Watch;

/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether slurmstepd calls the script after its task (`SLURM_SCRIPT_CONTEXT`).
pub fn is_called() -> bool {
    variable("SLURM_SCRIPT_CONTEXT").as_deref() == Some("epilog_task")
}

/// Waits. Nothing depends on it but a second.
pub fn run(context: &Context) {
    let Ok(lock_file) = context.lock_file() else {
        return;
    };
    let uid = nix::unistd::geteuid().as_raw();
    let ending = ownership_proof::reservations(&lock_file, Some(uid), &|args| args.is_ending());
    let ending = ending.iter().map(|holder| (holder.pid, holder.start));
    Watch::new(ending).all_over(Some(PATIENCE));
}
