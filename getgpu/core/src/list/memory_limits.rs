//! Which shares the driver enforces: what each job of Slurm that has a part of a GPU can have of its
//! memory (setting `enforce_memory`), as the driver tells anybody.

use std::path::Path;

use getgpu_ask::Node;
use getgpu_linux::procfs::cgroup;
use getgpu_model::{Failure, Inventory, Uuid};
use getgpu_settings::EnforceMemory;

use super::rows::Row;

/// Notes it of the holders, where the site has it enforced.
pub fn add(node: &mut Node<'_>, inventory: &Inventory, rows: &mut [Row]) -> Result<(), Failure> {
    if node.settings().enforce_memory == EnforceMemory::No {
        return Ok(());
    }
    for row in rows.iter_mut().filter(|row| !row.mig) {
        let Some(gpu) = Uuid::parse(&row.uuid).and_then(|uuid| inventory.device(&uuid)) else {
            continue;
        };
        let holders = row.holders.iter_mut();
        for holder in holders.filter(|holder| holder.share.is_some_and(|share| share < 1.0)) {
            let step = holder.locker.and_then(cgroup::of_slurm_step);
            if let Some(job) = step.as_deref().and_then(Path::parent) {
                let told = node.nvml()?.memory_limit(gpu, job.to_owned())?;
                holder.memory_limit = told.ok().flatten();
            }
        }
    }
    Ok(())
}
