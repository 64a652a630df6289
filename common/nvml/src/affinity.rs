//! Which CPUs are near a GPU (nvmlDeviceGetCpuAffinity, nvml.h), in a set with room for
//! more than 1,024 of them. A MIG device is asked about by its parent, since a MIG handle
//! does not answer with every driver.

use std::ffi::c_ulong;

use super::fault::{Fault, ask};
use super::session::Session;
use getgpu_ask::NvmlQuestion;
use getgpu_model::CpuSet;

/// Room for CPUs: as many as Linux can be built for.
const CPUS: usize = 8192;

/// The CPUs near the GPU of a device.
pub(super) fn cpus(session: &mut Session<'_>, asked: &NvmlQuestion) -> Result<CpuSet, Fault> {
    let index = session.gpu_of(asked)?;
    let gpu = session.handle(index, None)?;
    let words = CPUS / c_ulong::BITS as usize;
    match ask("DeviceGetCpuAffinity", || gpu.cpu_affinity(words)) {
        Ok(words) => Ok(CpuSet::from_words(&words)),
        // Where a driver cannot tell, no CPU is nearer than another.
        Err(fault) if fault.absent() => Ok((0..CPUS).collect()),
        Err(fault) => Err(fault),
    }
}
