//! The NVML calls that limit the memory of a whole GPU for a cgroup (nvml.h 13.5, drivers from branch
//! 615 on), in the form of C.

use std::ffi::{CString, c_char, c_ulonglong};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nvml_wrapper::{Device, Nvml};

use super::call_newer;
use crate::fault::{Fault, NOT_FOUND};

/// NVML_DEVICE_MEMORY_LIMIT_MAX: no limit.
const NO_LIMIT: c_ulonglong = c_ulonglong::MAX;

/// nvmlSetMemoryLimits_v1_t; nvmlGetMemoryLimits_v1_t has one number more.
#[repr(C)]
struct MemoryLimits {
    cgroup: *const c_char,
    /// What is guaranteed, in bytes.
    soft: c_ulonglong,
    /// What is possible, in bytes.
    hard: c_ulonglong,
    used: c_ulonglong,
}

fn name_of(cgroup: &Path) -> Result<CString, Fault> {
    let name = CString::new(cgroup.as_os_str().as_bytes());
    name.map_err(|_| Fault::unusable("DeviceSetMemoryLimits_v1", "a NUL in the path of a cgroup"))
}

/// nvmlDeviceSetMemoryLimits_v1: the programs in a cgroup can have `bytes` of the GPU's memory, and no
/// more. For root.
pub(crate) fn limit_memory(
    nvml: &Nvml,
    gpu: &Device<'_>,
    cgroup: &Path,
    bytes: u64,
) -> Result<(), Fault> {
    let name = name_of(cgroup)?;
    let mut limits = MemoryLimits {
        cgroup: name.as_ptr(),
        soft: bytes,
        hard: bytes,
        used: 0,
    };
    let limits = (&raw mut limits).cast();
    // SAFETY: a handle, and the structure with a text that lives as long as the call.
    unsafe { call_newer(nvml, gpu, c"nvmlDeviceSetMemoryLimits_v1", limits) }
}

/// nvmlDeviceGetMemoryLimits_v1: how many bytes of the GPU's memory the programs in a cgroup can have at
/// most; none: there is no limit. For anybody.
pub(crate) fn memory_limit(
    nvml: &Nvml,
    gpu: &Device<'_>,
    cgroup: &Path,
) -> Result<Option<u64>, Fault> {
    let name = name_of(cgroup)?;
    let mut limits = MemoryLimits {
        cgroup: name.as_ptr(),
        soft: 0,
        hard: NO_LIMIT,
        used: 0,
    };
    let place = (&raw mut limits).cast();
    // SAFETY: as above, and the library writes three numbers.
    match unsafe { call_newer(nvml, gpu, c"nvmlDeviceGetMemoryLimits_v1", place) } {
        Err(fault) if fault.code == NOT_FOUND => Ok(None),
        Err(fault) => Err(fault),
        Ok(()) => Ok(Some(limits.hard).filter(|hard| *hard != NO_LIMIT)),
    }
}
