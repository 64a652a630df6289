//! The memory of a device: as the present call tells it, or the one of older drivers, or,
//! for its size alone, the device's attributes. A profile's name is not its size:
//! `1g.18gb` has 16.00 GiB.

use nvml_wrapper::{Device as Handle, Nvml};

use super::fault::{Fault, ask, with_retries};
use super::raw;
use getgpu_model::Memory;

/// Total and used, in bytes (nvmlDeviceGetMemoryInfo_v2; drivers before 510 have the
/// first version only).
pub(super) fn memory(nvml: &Nvml, handle: &Handle<'_>) -> Result<Memory, Fault> {
    match ask("DeviceGetMemoryInfo_v2", || handle.memory_info()) {
        Ok(info) => Ok(Memory {
            total: info.total,
            used: info.used,
        }),
        Err(fault) if fault.absent() => with_retries(|| raw::memory_v1(nvml, handle)),
        Err(fault) => Err(fault),
    }
}

/// Its size in bytes, also where its use may not be seen (nvmlDeviceGetAttributes_v2, MIG
/// devices); none if NVML does not tell.
pub(super) fn by_attributes(handle: &Handle<'_>) -> Option<u64> {
    let attributes = handle.attributes().ok()?;
    attributes.memory_size_mb.checked_mul(1 << 20)
}
