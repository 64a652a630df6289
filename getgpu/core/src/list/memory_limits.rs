//! Which shares the driver enforces: what each job of Slurm that has a part of a GPU can have of its
//! memory (setting `enforce_memory`), as the driver tells anybody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use getgpu_ask::Node;
use getgpu_linux::procfs::cgroup;
use getgpu_model::{Device, Failure};
use getgpu_settings::EnforceMemory;

use super::rows::Row;

/// Notes it of the holders of a GPU, where the site has it enforced. What the site excludes is not asked.
pub fn add(node: &mut Node<'_>, gpu: &Device, row: &mut Row) -> Result<(), Failure> {
    let is_enforced = node.settings().enforce_memory != EnforceMemory::No;
    if !is_enforced || row.mig || row.excluded {
        return Ok(());
    }
    // The programs of a job have their parts inside that of the job.
    let mut jobs: BTreeMap<PathBuf, Option<u64>> = BTreeMap::new();
    let holders = row.holders.iter_mut();
    for holder in holders.filter(|holder| holder.share.is_some_and(|share| share < 1.0)) {
        let step = holder.locker.and_then(cgroup::of_slurm_step);
        let Some(job) = step.as_deref().and_then(Path::parent) else {
            continue;
        };
        if !jobs.contains_key(job) {
            let told = node.nvml()?.memory_limit(gpu, job.to_owned())?;
            jobs.insert(job.to_owned(), told.ok().flatten());
        }
        holder.memory_limit = jobs.get(job).copied().flatten();
    }
    Ok(())
}
