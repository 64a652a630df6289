//! Which CPUs are near a GPU (nvmlDeviceGetCpuAffinity, nvml.h), in a set with room for
//! more than 1,024 of them. A MIG device is asked about by its parent, since a MIG handle
//! does not answer with every driver.

use std::ffi::c_ulong;

use nvml_wrapper::Device as Handle;

use super::fault::{Fault, with_retries};
use super::session::Session;
use getgpu_common::cpus::CpuSet;
use getgpu_common::ident::Uuid;

/// Room for CPUs: as many as Linux can be built for.
const CPUS: usize = 8192;

/// The CPUs near a GPU.
pub(super) fn cpus(session: &mut Session<'_>, gpu: u32) -> Result<CpuSet, Fault> {
    near(&*session.handle(gpu, None)?)
}

/// The CPUs near the GPU of the device of a UUID.
pub(super) fn cpus_of(session: &Session<'_>, uuid: &Uuid) -> Result<CpuSet, Fault> {
    let nvml = session.nvml;
    let call = "DeviceGetHandleByUUID";
    let handle = with_retries(|| {
        nvml.device_by_uuid(uuid.as_str())
            .map_err(|e| Fault::from(call, &e))
    })?;
    if !uuid.is_mig() {
        return near(&handle);
    }
    let call = "DeviceGetDeviceHandleFromMigDeviceHandle";
    near(&with_retries(|| {
        handle
            .mig_parent_device()
            .map_err(|e| Fault::from(call, &e))
    })?)
}

fn near(gpu: &Handle<'_>) -> Result<CpuSet, Fault> {
    let words = CPUS / c_ulong::BITS as usize;
    let told = with_retries(|| {
        gpu.cpu_affinity(words)
            .map_err(|e| Fault::from("DeviceGetCpuAffinity", &e))
    });
    match told {
        Ok(words) => Ok(CpuSet::from_words(words)),
        // Where a driver cannot tell, no CPU is nearer than another.
        Err(fault) if fault.absent() => Ok((0..CPUS).collect()),
        Err(fault) => Err(fault),
    }
}
