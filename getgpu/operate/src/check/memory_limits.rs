//! Whether the driver can do what `enforce_memory` asks for, on each GPU whose parts are given to jobs.

use getgpu_core::call::node;
use getgpu_linux::procfs::cgroup;
use getgpu_model::{Failure, Inventory};
use getgpu_settings::{EnforceMemory, Settings};

use super::findings::Findings;
use crate::causes::OperateCause;

/// Looks, where it is set.
pub fn check(settings: &Settings, inventory: &Inventory, findings: &mut Findings) {
    if settings.enforce_memory == EnforceMemory::No {
        return;
    }
    match limitable(settings, inventory) {
        Ok(text) => findings.fine("shares", &text),
        Err(failure) => {
            let text = format!("enforce_memory is set: {}", failure.message);
            findings.wrong(
                "shares",
                &text,
                "parts of jobs are counted only: it needs driver 615, cgroup v2 and whole GPUs",
            );
        }
    }
}

fn limitable(settings: &Settings, inventory: &Inventory) -> Result<String, Failure> {
    let top = cgroup::top().ok_or(OperateCause::NoCgroup)?;
    let whole: Vec<_> = inventory
        .devices
        .iter()
        .filter(|device| device.slot.is_none())
        .collect();
    if whole.is_empty() {
        return Err(OperateCause::MigUnlimited.into());
    }
    node(settings).ask(|node| {
        for gpu in &whole {
            node.nvml()?.memory_limit(*gpu, top.clone())??;
        }
        Ok(())
    })?;
    Ok("the driver can keep jobs to their parts of the memory (where Slurm has PrologFlags=RunInJob)".to_owned())
}
