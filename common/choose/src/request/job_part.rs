//! What a job of Slurm has on a node whose devices are shared by parts: what root's prolog has
//! reserved for it, whatever its environment says. The job is the one that the kernel or slurmd shows.

use getgpu_linux::procfs::namespaces;
use getgpu_lock::{LockFile, Role, ownership_proof};
use getgpu_model::{Job, Uuid};
use getgpu_settings::{Environment, Settings};

/// What this process's job has of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartOfJob {
    /// This part of these devices.
    Reserved(Vec<Uuid>),
    /// None, though its prolog has tried to reserve one, or nothing else says that it has a device.
    Missing,
}

/// What the job has; none: this process is in no job of Slurm, nothing is shared so here, or Slurm
/// itself has given devices to the job.
pub(super) fn find(settings: &Settings, environment: &Environment) -> Option<PartOfJob> {
    // In another pid namespace neither the job nor its reservation is certain to be seen.
    if !settings.shares_by_parts() || !namespaces::host_pids() {
        return None;
    }
    let jobs = [Job::of(std::process::id() as i32), Job::own()];
    let jobs: Vec<Job> = jobs.into_iter().flatten().collect();
    let is_own = |job: &Job| jobs.iter().any(|own| own.number() == job.number());
    if jobs.is_empty() {
        return None;
    }
    let lock_file = LockFile::find(environment.lock.clone(), settings.lock.clone()).ok()?;
    let uid = nix::unistd::geteuid().as_raw();
    let of_job = ownership_proof::reservations(&lock_file, Some(uid), &|args| {
        let by_hook = matches!(args.role, Role::JobPart | Role::Task);
        by_hook && args.job.as_ref().is_some_and(is_own)
    });
    // The kernel's word on the job comes before that of the environment.
    let of_number = |own: &Job| {
        let mut parts = of_job
            .iter()
            .filter(|holder| holder.args.role == Role::JobPart);
        parts.find(|holder| holder.args.job_of_part() == Some(own.number()))
    };
    if let Some(part) = jobs.iter().find_map(of_number) {
        return Some(PartOfJob::Reserved(part.args.devices.clone()));
    }
    let marks = lock_file.path.parent();
    let is_marked = jobs.iter().any(|job| {
        let mark = marks.map(|marks| marks.join(format!("slurm-{}", job.number())));
        mark.is_some_and(|mark| mark.symlink_metadata().is_ok())
    });
    let has_devices = environment.batch_gpus.is_some() || !of_job.is_empty();
    (is_marked || !has_devices && settings.hides_ungranted()).then_some(PartOfJob::Missing)
}
