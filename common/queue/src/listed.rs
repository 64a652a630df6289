//! Whether devices are still what a waiter's list says. A UUID names a place, not what is there:
//! a GPU keeps its own when it is put into MIG mode, and a MIG device made anew at the same place,
//! of another size, has that of the one before.

use getgpu_ask::Node;
use getgpu_model::{Detail, Device, Failure};

/// Whether all of these devices are as they were listed with this detail.
///
/// # Errors
///
/// NVML does not answer.
pub fn is_current<'d>(
    node: &mut Node<'_>,
    devices: impl IntoIterator<Item = &'d Device>,
    detail: Detail,
) -> Result<bool, Failure> {
    for listed in devices {
        let nvml = node.nvml()?;
        let gpu = nvml.gpu(listed.gpu)?;
        let there = nvml.device(listed.gpu, listed.slot, detail)?;
        let is_same = there.is_some_and(|there| {
            (&there.uuid, there.profile, there.memory)
                == (&listed.uuid, listed.profile.clone(), listed.memory)
        });
        if !is_same || gpu.is_none_or(|gpu| gpu.mig != listed.uuid.is_mig()) {
            return Ok(false);
        }
    }
    Ok(true)
}
