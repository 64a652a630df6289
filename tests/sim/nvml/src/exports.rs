//! The C functions of libnvidia-ml.so.1 that exist here, under their exact names and in
//! their exact forms. Each only hands its arguments on; the answers are in `answers.rs`
//! and `processes.rs`.
//!
//! A pointer from the caller is either NULL or good for what nvml.h says: that is the
//! contract of every function here, and no more is assumed. Handles are numbers and never
//! followed.
#![allow(unsafe_code, non_snake_case, reason = "the names are NVIDIA's")]

use crate::abi::{
    DeviceAttributes, MEMORY_V2, Memory, MemoryV2, PciInfo, ProcessInfo, ProcessInfoV1, Utilization,
};
use crate::codes::{
    self, ARGUMENT_VERSION_MISMATCH, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Reply, SUCCESS,
};
use crate::handle::Device;
use crate::library::LIBRARY;
use crate::session::{Session, Target};
use crate::{affinity, copy};
use sim_node::Kind;
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

type Handle = *mut c_void;

/// Bytes of the window to the host; `nvmlBAR1Memory_t` has the form of `nvmlMemory_t`.
const BAR1: u64 = 32767 << 20;

fn code(reply: Reply<()>) -> c_int {
    reply.err().unwrap_or(SUCCESS)
}

fn device(handle: Handle) -> Target {
    Target::Handle(handle as usize)
}

/// Functions with a device and one place for the answer.
macro_rules! getters {
    ($($name:ident: $out:ty = $answer:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: Handle, out: *mut $out) -> c_int {
            let reply = LIBRARY.call(stringify!($name), &device(handle), $answer);
            // SAFETY: the caller vouches for `out`.
            code(reply.and_then(|value| unsafe { copy::put(out, value) }))
        }
    )*};
}

/// Functions with a device and a buffer for a text.
macro_rules! texts {
    ($($name:ident = $answer:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: Handle, out: *mut c_char, length: c_uint) -> c_int {
            // SAFETY: the caller vouches for `out` and `length`.
            unsafe { put_text(stringify!($name), &device(handle), out, length, $answer) }
        }
    )*};
}

/// Lists of processes.
macro_rules! lists {
    ($($name:ident: $entry:ty = $kind:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: Handle, count: *mut c_uint, entries: *mut $entry) -> c_int {
            let reply = LIBRARY.call(stringify!($name), &device(handle), |s, d| s.processes(d, $kind));
            // SAFETY: the caller vouches for `count` and `entries`.
            code(reply.and_then(|processes| unsafe { copy::put_list(&processes, count, entries) }))
        }
    )*};
}

/// Lists of processes whose entries have 32 bytes with some drivers.
macro_rules! wide_lists {
    ($($name:ident = $kind:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: Handle, count: *mut c_uint, entries: *mut c_void) -> c_int {
            let answer = |s: &mut Session, d| Ok((s.processes(d, $kind)?, s.node.version.has_wide_processes()));
            let reply = LIBRARY.call(stringify!($name), &device(handle), answer);
            code(reply.and_then(|(processes, wide)| {
                if wide {
                    // SAFETY: the caller vouches for the pointers; too short entries are
                    // the trap of those drivers.
                    unsafe { copy::put_list::<crate::abi::ProcessDetail>(&processes, count, entries.cast()) }
                } else {
                    // SAFETY: the caller vouches for the pointers.
                    unsafe { copy::put_list::<ProcessInfo>(&processes, count, entries.cast()) }
                }
            }))
        }
    )*};
}

/// # Safety
/// `out` is NULL or has room for `length` bytes.
unsafe fn put_text(
    function: &str,
    target: &Target,
    out: *mut c_char,
    length: c_uint,
    answer: impl FnOnce(&Session, Device) -> Reply<String>,
) -> c_int {
    let reply = LIBRARY.enter(function, target).and_then(|entered| {
        let text = LIBRARY.answer(|session| answer(session, entered.device))?;
        // SAFETY: as this function's.
        unsafe { copy::put_text(out, length, &text, entered.garbage) }
    });
    code(reply)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> c_int {
    code(LIBRARY.init("nvmlInit_v2", ""))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(flags: c_uint) -> c_int {
    code(LIBRARY.init("nvmlInitWithFlags", &flags.to_string()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> c_int {
    code(LIBRARY.shutdown("nvmlShutdown"))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: c_int) -> *const c_char {
    codes::text(result).as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> c_int {
    // SAFETY: the caller vouches for `out` and `length`.
    unsafe {
        put_text(
            "nvmlSystemGetDriverVersion",
            &Target::Node,
            out,
            length,
            |s, _| Ok(s.node.driver.clone()),
        )
    }
}

/// Works before init too: it is about the library, not the driver.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetNVMLVersion(out: *mut c_char, length: c_uint) -> c_int {
    let version = LIBRARY.answer(|s| Ok(format!("12.{}", s.node.driver)));
    // SAFETY: the caller vouches for `out` and `length`.
    code(unsafe {
        copy::put_text(
            out,
            length,
            version.as_deref().unwrap_or("12.550.54.15"),
            false,
        )
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(out: *mut c_int) -> c_int {
    let reply = LIBRARY.call("nvmlSystemGetCudaDriverVersion", &Target::Node, |s, _| {
        Ok(s.node.version.cuda())
    });
    // SAFETY: the caller vouches for `out`.
    code(reply.and_then(|version| unsafe { copy::put(out, version) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) -> c_int {
    let reply = LIBRARY.call(
        "nvmlSystemGetCudaDriverVersion_v2",
        &Target::Node,
        |s, _| Ok(s.node.version.cuda()),
    );
    // SAFETY: the caller vouches for `out`.
    code(reply.and_then(|version| unsafe { copy::put(out, version) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetProcessName(
    pid: c_uint,
    out: *mut c_char,
    length: c_uint,
) -> c_int {
    let name = |_: &Session, _| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).map_err(|_| NOT_FOUND)
    };
    let first =
        |s: &Session, d| name(s, d).map(|line| line.split('\0').next().unwrap_or("").to_owned());
    // SAFETY: the caller vouches for `out` and `length`.
    unsafe {
        put_text(
            "nvmlSystemGetProcessName",
            &Target::Node,
            out,
            length,
            first,
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> c_int {
    let count = |s: &mut Session, _| Ok(u32::try_from(s.node.gpus.len()).unwrap_or(u32::MAX));
    let reply = LIBRARY.call("nvmlDeviceGetCount_v2", &Target::Node, count);
    // SAFETY: the caller vouches for `out`.
    code(reply.and_then(|count| unsafe { copy::put(out, count) }))
}

/// # Safety
/// `out` is NULL or may be written to.
unsafe fn put_handle(function: &str, target: &Target, out: *mut Handle) -> c_int {
    let reply = LIBRARY.call(function, target, |s, d| Ok(s.handle(d)));
    // SAFETY: as this function's.
    code(reply.and_then(|handle| unsafe { copy::put(out, handle as Handle) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut Handle) -> c_int {
    // SAFETY: the caller vouches for `out`.
    unsafe { put_handle("nvmlDeviceGetHandleByIndex_v2", &Target::Index(index), out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, out: *mut Handle) -> c_int {
    // SAFETY: the caller vouches for `uuid` and `out`.
    unsafe {
        let target = copy::text(uuid).map_or(Target::Missing, Target::Uuid);
        put_handle("nvmlDeviceGetHandleByUUID", &target, out)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    id: *const c_char,
    out: *mut Handle,
) -> c_int {
    // SAFETY: the caller vouches for `id` and `out`.
    unsafe {
        let target = copy::text(id).map_or(Target::Missing, Target::PciBusId);
        put_handle("nvmlDeviceGetHandleByPciBusId_v2", &target, out)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    handle: Handle,
    index: c_uint,
    out: *mut Handle,
) -> c_int {
    let function = "nvmlDeviceGetMigDeviceHandleByIndex";
    let reply = LIBRARY.call(function, &Target::Slot(handle as usize, index), |s, d| {
        s.mig_by_index(d, index)
    });
    // SAFETY: the caller vouches for `out`.
    code(reply.and_then(|handle| unsafe { copy::put(out, handle as Handle) }))
}

texts! {
    nvmlDeviceGetName = Session::name;
    nvmlDeviceGetUUID = Session::uuid;
    nvmlDeviceGetSerial = |s, d| Ok(format!("13200{:08}", s.gpu(d)?.index + 1));
}

getters! {
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle: Handle = |s, d| Ok(s.parent_handle(d)? as Handle);
    nvmlDeviceGetIndex: c_uint = |s, d| s.index(d);
    nvmlDeviceGetMinorNumber: c_uint = |s, d| Ok(s.gpu(d)?.minor);
    nvmlDeviceGetPciInfo_v3: PciInfo = |s, d| s.pci_info(d);
    nvmlDeviceGetMemoryInfo: Memory = |s, d| Ok(s.memory(d)?.v1());
    nvmlDeviceGetBAR1MemoryInfo: Memory = |_, _| Ok(Memory { total: BAR1, free: BAR1, used: 0 });
    nvmlDeviceGetAttributes_v2: DeviceAttributes = |s, d| s.attributes(d);
    nvmlDeviceGetMaxMigDeviceCount: c_uint = |s, d| s.max_mig_devices(d);
    nvmlDeviceIsMigDeviceHandle: c_uint = |_, d| Ok(matches!(d, Device::Mig(..)).into());
    nvmlDeviceGetGpuInstanceId: c_uint = |s, d| Ok(s.mig(d)?.gi);
    nvmlDeviceGetComputeInstanceId: c_uint = |s, d| Ok(s.mig(d)?.ci);
    nvmlDeviceGetComputeMode: c_uint = |s, d| s.gpu(d).map(|_| 0);
    nvmlDeviceGetNumaNodeId: c_uint = |s, d| s.gpu(d)?.numa_node.ok_or(NOT_SUPPORTED);
    nvmlDeviceGetUtilizationRates: Utilization = |s, d| s.utilization(d);
    nvmlDeviceGetConfComputeMemSizeInfo: [u64; 2] = |_, _| Err(NOT_SUPPORTED);
    nvmlDeviceGetRunningProcessDetailList: c_void = |_, _| Err(NOT_SUPPORTED);
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

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigMode(
    handle: Handle,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> c_int {
    let reply = LIBRARY.call("nvmlDeviceGetMigMode", &device(handle), |s, d| {
        s.mig_mode(d)
    });
    // SAFETY: the caller vouches for both.
    code(
        reply.and_then(|(now, later)| unsafe {
            copy::put(current, now).and(copy::put(pending, later))
        }),
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    handle: Handle,
    major: *mut c_int,
    minor: *mut c_int,
) -> c_int {
    let reply = LIBRARY.call(
        "nvmlDeviceGetCudaComputeCapability",
        &device(handle),
        |s, d| Ok(s.gpu(d)?.cuda),
    );
    // SAFETY: the caller vouches for both.
    code(reply.and_then(|cuda| unsafe { copy::put(major, cuda.0).and(copy::put(minor, cuda.1)) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: Handle, out: *mut MemoryV2) -> c_int {
    let reply = LIBRARY.call("nvmlDeviceGetMemoryInfo_v2", &device(handle), |s, d| {
        s.memory(d)
    });
    // SAFETY: the caller vouches for `out`; only its version word is read.
    code(
        reply.and_then(|figures| match unsafe { copy::get(out.cast::<u32>()) }? {
            // SAFETY: the same, and the version word says that the caller means this
            // structure.
            MEMORY_V2 => unsafe { copy::put(out, figures.v2(MEMORY_V2)) },
            _ => Err(ARGUMENT_VERSION_MISMATCH),
        }),
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCpuAffinity(
    handle: Handle,
    size: c_uint,
    out: *mut c_ulong,
) -> c_int {
    // SAFETY: as the caller's.
    unsafe { put_affinity("nvmlDeviceGetCpuAffinity", handle, size, out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCpuAffinityWithinScope(
    handle: Handle,
    size: c_uint,
    out: *mut c_ulong,
    _scope: c_uint,
) -> c_int {
    // SAFETY: as the caller's.
    unsafe { put_affinity("nvmlDeviceGetCpuAffinityWithinScope", handle, size, out) }
}

/// # Safety
/// `out` is NULL or has room for `size` words.
unsafe fn put_affinity(function: &str, handle: Handle, size: c_uint, out: *mut c_ulong) -> c_int {
    let reply = LIBRARY.call(function, &device(handle), |s, d| Ok(s.gpu(d)?.cpus.clone()));
    code(reply.and_then(|cpus| {
        if size == 0 || out.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        for (n, word) in affinity::words(&cpus, size as usize)
            .into_iter()
            .enumerate()
        {
            // SAFETY: n is below `size`, for which the caller vouches.
            unsafe { copy::put(out.add(n), word) }?;
        }
        Ok(())
    }))
}
