//! The C functions of libnvidia-ml.so.1 that list processes, in every version. The contract
//! about pointers is that of `exports.rs`.
#![allow(unsafe_code, non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::{c_int, c_uint, c_void};

use sim_node::Kind;

use crate::abi::{ProcessInfo, ProcessInfoV1};
use crate::copy;
use crate::exports::{Handle, code, device};
use crate::library::LIBRARY;
use crate::processes::Process;
use crate::trouble::Lie;

/// Lists of processes.
macro_rules! lists {
    ($($name:ident: $entry:ty = $kind:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: Handle, count: *mut c_uint, entries: *mut $entry) -> c_int {
            // SAFETY: the caller vouches for `count` and `entries`.
            unsafe { put_processes(stringify!($name), handle, $kind, count, entries) }
        }
    )*};
}

/// Lists of processes whose entries have 32 bytes with some drivers.
macro_rules! wide_lists {
    ($($name:ident = $kind:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: Handle, count: *mut c_uint, entries: *mut c_void) -> c_int {
            let wide = LIBRARY.answer(|s| Ok(s.node.version.has_wide_processes()));
            let name = stringify!($name);
            // SAFETY: the caller vouches for the pointers; too short entries are the trap of
            // those drivers.
            unsafe {
                if wide == Ok(true) {
                    put_processes::<crate::abi::ProcessDetail>(name, handle, $kind, count, entries.cast())
                } else {
                    put_processes::<ProcessInfo>(name, handle, $kind, count, entries.cast())
                }
            }
        }
    )*};
}

/// # Safety
/// As for [`copy::put_list`].
unsafe fn put_processes<T: From<Process>>(
    function: &str,
    handle: Handle,
    kind: Kind,
    count: *mut c_uint,
    entries: *mut T,
) -> c_int {
    let reply = LIBRARY
        .enter(function, &device(handle))
        .and_then(|entered| {
            if let Lie::Noise(mut noise) = entered.lie {
                // SAFETY: as this function's.
                return unsafe { copy::put_noisy_list(count, entries, &mut noise) };
            }
            let list = LIBRARY.answer(|session| session.processes(entered.device, kind))?;
            // SAFETY: as this function's.
            unsafe { copy::put_list(&list, count, entries) }
        });
    code(reply)
}

lists! {
    nvmlDeviceGetComputeRunningProcesses: ProcessInfoV1 = Kind::Compute;
    nvmlDeviceGetComputeRunningProcesses_v2: ProcessInfo = Kind::Compute;
    nvmlDeviceGetGraphicsRunningProcesses: ProcessInfoV1 = Kind::Graphics;
    nvmlDeviceGetGraphicsRunningProcesses_v2: ProcessInfo = Kind::Graphics;
    nvmlDeviceGetMPSComputeRunningProcesses: ProcessInfoV1 = Kind::Mps;
    nvmlDeviceGetMPSComputeRunningProcesses_v2: ProcessInfo = Kind::Mps;
}

wide_lists! {
    nvmlDeviceGetComputeRunningProcesses_v3 = Kind::Compute;
    nvmlDeviceGetGraphicsRunningProcesses_v3 = Kind::Graphics;
    nvmlDeviceGetMPSComputeRunningProcesses_v3 = Kind::Mps;
}
