//! The setting `enforce_memory`: the driver keeps a job to its part of a GPU's memory
//! (nvmlDeviceSetMemoryLimits_v1, by the job's cgroup). The limit goes with the cgroup, so that no hook
//! has to take it away.

use std::path::{Path, PathBuf};

use getgpu_core::call::node;
use getgpu_linux::procfs::cgroup;
use getgpu_lock::{HolderArgs, ownership_proof};
use getgpu_model::{Detail, Failure, Share, Uuid};
use getgpu_settings::EnforceMemory;

use super::job_part::{self, SearchEffort};
use super::{Context, job_user, tell};
use crate::causes::{OperateCause, SlurmCause};

/// Limits what the job's programs can have of the memory of the GPU that its part is of.
///
/// # Errors
///
/// That cannot be, and the site wants no part without: the part is given up.
pub fn enforce(context: &Context, job: &str, share: &str) -> Result<(), Failure> {
    let enforce = context.loaded.settings.enforce_memory;
    if enforce == EnforceMemory::No {
        return Ok(());
    }
    let Err(failure) = limit(context, job, share) else {
        return Ok(());
    };
    if enforce == EnforceMemory::Always {
        job_part::give_up(context, job, job_user(), SearchEffort::Patient)?;
        let why = failure.message;
        return Err(SlurmCause::NotLimited { why }.into());
    }
    let text = format!("job {job}: its part is counted only: {}", failure.message);
    tell::log("prolog", &text);
    Ok(())
}

fn limit(context: &Context, job: &str, share: &str) -> Result<(), Failure> {
    let cgroup = own_cgroup()?;
    let share: Share = share
        .parse()
        .map_err(|why| SlurmCause::NotLimited { why })?;
    let devices = devices_of(context, job)?;
    node(&context.loaded.settings).ask(|node| {
        for device in &devices {
            if device.is_mig() {
                return Err(OperateCause::MigUnlimited.into());
            }
            let nvml = node.nvml()?;
            // A process in the cgroup sees the limit as the whole.
            if nvml.memory_limit(device, cgroup.clone())??.is_some() {
                continue;
            }
            let memory = nvml.usage_by_uuid(device, Detail::Full)?.memory;
            let memory = memory.ok_or(SlurmCause::MemoryUntold)?;
            nvml.limit_memory(device, cgroup.clone(), share.memory(memory.total))??;
        }
        Ok(())
    })
}

/// The job's cgroup, which all its tasks will be in. By default slurmd runs the prolog before it makes
/// that one.
fn own_cgroup() -> Result<PathBuf, Failure> {
    let step = cgroup::of_slurm_step(std::process::id().cast_signed());
    let job = step.as_deref().and_then(Path::parent);
    let job = job.map(Path::to_owned);
    job.ok_or_else(|| SlurmCause::OutsideCgroup.into())
}

fn devices_of(context: &Context, job: &str) -> Result<Vec<Uuid>, Failure> {
    let is_job = |args: &HolderArgs| args.job_of_part() == Some(job);
    let lock_file = context.lock_file()?;
    let holders = ownership_proof::reservations(&lock_file, job_user(), &is_job);
    let devices: Vec<Uuid> = holders
        .into_iter()
        .flat_map(|holder| holder.args.devices)
        .collect();
    if devices.is_empty() {
        return Err(SlurmCause::PartUnknown.into());
    }
    Ok(devices)
}
