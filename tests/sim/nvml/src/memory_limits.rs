//! nvmlDeviceSetMemoryLimits_v1 and nvmlDeviceGetMemoryLimits_v1 (nvml.h 13.5): limits of a GPU's memory
//! for a cgroup of version 2, which root sets and anybody may read. No such driver was at hand: this is
//! what the header says.
#![allow(unsafe_code, non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::c_int;
use std::path::PathBuf;

use sim_node::MemoryLimits;

use crate::abi::{GetMemoryLimits, SetMemoryLimits};
use crate::codes::{
    INVALID_ARGUMENT, NO_PERMISSION, NOT_FOUND, NOT_SUPPORTED, OPERATING_SYSTEM, Reply, UNKNOWN,
};
use crate::copy;
use crate::exports::{Handle, code, device};
use crate::handle::Device;
use crate::library::LIBRARY;
use crate::session::Session;

impl Session {
    /// The GPU's UUID: MIG handles are not supported, nor GPUs in MIG mode.
    fn limited(&self, device: Device) -> Reply<(String, u64)> {
        let gpu = self.gpu(device).map_err(|_| INVALID_ARGUMENT)?;
        if gpu.in_mig_mode() || gpu.integrated {
            return Err(NOT_SUPPORTED);
        }
        Ok((gpu.uuid.clone(), gpu.memory))
    }

    fn set_limits(
        &self,
        device: Device,
        cgroup: Option<PathBuf>,
        limits: MemoryLimits,
    ) -> Reply<()> {
        let (gpu, memory) = self.limited(device)?;
        if self.uid != 0 {
            return Err(NO_PERMISSION);
        }
        let is_none = limits == MemoryLimits::NONE;
        let is_too_much = limits.soft > limits.hard || limits.hard > memory;
        let cgroup = cgroup.filter(|_| is_none || !is_too_much);
        let cgroup = cgroup.ok_or(INVALID_ARGUMENT)?;
        let set = self.folder.limit_memory(&gpu, &is_cgroup(cgroup)?, limits);
        set.map_err(|_| UNKNOWN)
    }

    fn limits(&self, device: Device, cgroup: Option<PathBuf>) -> Reply<(MemoryLimits, u64)> {
        let (gpu, _) = self.limited(device)?;
        let cgroup = is_cgroup(cgroup.ok_or(INVALID_ARGUMENT)?)?;
        let limits = self.folder.memory_limits(&gpu, &cgroup);
        let used = self.folder.memory_used_in(&gpu, &cgroup);
        let limits = limits.map_err(|_| UNKNOWN)?.ok_or(NOT_FOUND)?;
        Ok((limits, used.map_err(|_| UNKNOWN)?))
    }
}

/// A directory of a cgroup has this file.
fn is_cgroup(path: PathBuf) -> Reply<PathBuf> {
    let there = path.join("cgroup.procs").exists();
    there.then_some(path).ok_or(OPERATING_SYSTEM)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceSetMemoryLimits_v1(
    handle: Handle,
    limits: *mut SetMemoryLimits,
) -> c_int {
    let function = "nvmlDeviceSetMemoryLimits_v1";
    // SAFETY: the caller vouches for `limits` and the text in it.
    let asked = unsafe { copy::get(limits).map(|asked| (asked, copy::text(asked.name_space))) };
    code(LIBRARY.call(function, &device(handle), |session, device| {
        let (asked, cgroup) = asked?;
        let (soft, hard) = (asked.soft_limit, asked.hard_limit);
        session.set_limits(
            device,
            cgroup.map(PathBuf::from),
            MemoryLimits { soft, hard },
        )
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryLimits_v1(
    handle: Handle,
    limits: *mut GetMemoryLimits,
) -> c_int {
    let function = "nvmlDeviceGetMemoryLimits_v1";
    // SAFETY: the caller vouches for `limits` and the text in it.
    let asked = unsafe { copy::get(limits).map(|asked| (asked, copy::text(asked.name_space))) };
    let told = LIBRARY.call(function, &device(handle), |session, device| {
        let (asked, cgroup) = asked?;
        let (limits, used) = session.limits(device, cgroup.map(PathBuf::from))?;
        Ok(GetMemoryLimits {
            soft_limit: limits.soft,
            hard_limit: limits.hard,
            current_used: used,
            ..asked
        })
    });
    // SAFETY: as above.
    code(told.and_then(|told| unsafe { copy::put(limits, told) }))
}
