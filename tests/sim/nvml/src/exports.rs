//! The C functions of libnvidia-ml.so.1 that exist here, under their exact names and in
//! their exact forms. Each only hands its arguments on; the answers are in `answers.rs`
//! and `processes.rs`.
//!
//! A pointer from the caller is either NULL or good for what nvml.h says: that is the
//! contract of every function here, and no more is assumed. Handles are numbers and never
//! followed.
#![allow(unsafe_code, non_snake_case, reason = "the names are NVIDIA's")]

use crate::abi::{
    DeviceAttributes, FABRIC_V2, FabricInfo, FieldValue, MEMORY_V2, Memory, MemoryV2, PciInfo,
    Utilization,
};
use crate::codes::{
    self, ARGUMENT_VERSION_MISMATCH, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Reply, SUCCESS,
};
use crate::handle::Device;
use crate::library::LIBRARY;
use crate::session::{Session, Target};
use crate::trouble::Lie;
use crate::{affinity, copy};
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

pub(crate) type Handle = *mut c_void;

/// Bytes of the window to the host; `nvmlBAR1Memory_t` has the form of `nvmlMemory_t`.
const BAR1: u64 = 32767 << 20;

/// The CUDA version of every driver, as NVML writes it (12040 is 12.4).
const CUDA: c_int = 12_040;

pub(crate) fn code(reply: Reply<()>) -> c_int {
    reply.err().unwrap_or(SUCCESS)
}

pub(crate) fn device(handle: Handle) -> Target {
    Target::Handle(handle as usize)
}

/// Functions with one place for the answer behind their arguments, and what they are about.
macro_rules! getters {
    ($($name:ident($($argument:ident: $type:ty),*): $out:ty = $target:expr, $answer:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type,)* out: *mut $out) -> c_int {
            // SAFETY: the caller vouches for `out`.
            unsafe { put_answer(stringify!($name), &$target, out, $answer) }
        }
    )*};
}

/// The same for a device alone.
macro_rules! device_getters {
    ($($name:ident: $out:ty = $answer:expr;)*) => {
        getters! { $($name(handle: Handle): $out = device(handle), $answer;)* }
    };
}

/// Functions with two places for the answer.
macro_rules! pairs {
    ($($name:ident: $out:ty = $answer:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: Handle, one: *mut $out, other: *mut $out) -> c_int {
            let reply = LIBRARY.enter(stringify!($name), &device(handle)).and_then(|entered| {
                if let Lie::Noise(mut noise) = entered.lie {
                    // SAFETY: the caller vouches for both.
                    return unsafe {
                        copy::put_noise(one, &mut noise).and(copy::put_noise(other, &mut noise))
                    };
                }
                let (first, second) = LIBRARY.answer(|session| $answer(session, entered.device))?;
                // SAFETY: the caller vouches for both.
                unsafe { copy::put(one, first).and(copy::put(other, second)) }
            });
            code(reply)
        }
    )*};
}

/// Functions with a buffer for a text behind their arguments.
macro_rules! texts {
    ($($name:ident($($argument:ident: $type:ty),*) = $target:expr, $answer:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type,)* out: *mut c_char, length: c_uint) -> c_int {
            // SAFETY: the caller vouches for `out` and `length`.
            unsafe { put_text(stringify!($name), &$target, out, length, $answer) }
        }
    )*};
}

/// # Safety
/// `out` is NULL or may be written to.
unsafe fn put_answer<T>(
    function: &str,
    target: &Target,
    out: *mut T,
    answer: impl FnOnce(&mut Session, Device) -> Reply<T>,
) -> c_int {
    let reply = LIBRARY.enter(function, target).and_then(|entered| {
        if let Lie::Noise(mut noise) = entered.lie {
            // SAFETY: as this function's.
            return unsafe { copy::put_noise(out, &mut noise) };
        }
        let value = LIBRARY.answer(|session| answer(session, entered.device))?;
        // SAFETY: as this function's.
        unsafe { copy::put(out, value) }
    });
    code(reply)
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
        unsafe { copy::put_text(out, length, &text, entered.lie) }
    });
    code(reply)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> c_int {
    code(LIBRARY.init("nvmlInit_v2", ""))
}

/// The first version, which torch calls.
#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> c_int {
    code(LIBRARY.init("nvmlInit", ""))
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
            Lie::None,
        )
    })
}

/// # Safety
/// `out` is NULL or may be written to.
unsafe fn put_handle(function: &str, target: &Target, out: *mut Handle) -> c_int {
    // SAFETY: as this function's.
    unsafe { put_answer(function, target, out, |s, d| Ok(s.handle(d) as Handle)) }
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

/// The name of the program that a process runs.
fn program_of(pid: c_uint) -> Reply<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).map_err(|_| NOT_FOUND)?;
    Ok(line.split('\0').next().unwrap_or("").to_owned())
}

texts! {
    nvmlSystemGetDriverVersion() = Target::Node, |s, _| Ok(s.node.driver.clone());
    nvmlSystemGetProcessName(pid: c_uint) = Target::Node, |_, _| program_of(pid);
    nvmlDeviceGetName(handle: Handle) = device(handle), Session::name;
    nvmlDeviceGetUUID(handle: Handle) = device(handle), Session::uuid;
    nvmlDeviceGetSerial(handle: Handle) = device(handle),
        |s, d| Ok(format!("13200{:08}", s.gpu(d)?.index + 1));
}

getters! {
    nvmlSystemGetCudaDriverVersion(): c_int = Target::Node, |_, _| Ok(CUDA);
    nvmlSystemGetCudaDriverVersion_v2(): c_int = Target::Node, |_, _| Ok(CUDA);
    nvmlDeviceGetCount_v2(): c_uint = Target::Node, |s, _| Ok(s.node.gpus.len() as u32);
    nvmlDeviceGetHandleByIndex_v2(index: c_uint): Handle = Target::Index(index),
        |s, d| Ok(s.handle(d) as Handle);
    nvmlDeviceGetMigDeviceHandleByIndex(handle: Handle, index: c_uint): Handle =
        Target::Slot(handle as usize, index), |s, d| Ok(s.mig_by_index(d, index)? as Handle);
    nvmlSystemGetConfComputeGpusReadyState(): c_uint = Target::Node, |s, _| s.accepts_work();
    nvmlDeviceGetTopologyCommonAncestor(handle: Handle, other: Handle): c_uint = device(handle),
        |s, d| s.topology_level(d, other as usize);
    nvmlDeviceGetNvLinkState(handle: Handle, link: c_uint): c_uint = device(handle), |s, d| s.link_state(d, link);
    nvmlDeviceGetNvLinkRemoteDeviceType(handle: Handle, link: c_uint): c_uint = device(handle), |s, d| s.link_remote_kind(d, link);
    nvmlDeviceGetNvLinkRemotePciInfo_v2(handle: Handle, link: c_uint): PciInfo = device(handle), |s, d| s.link_remote(d, link);
    nvmlDeviceGetTemperature(handle: Handle, sensor: c_uint): c_uint = device(handle),
        |s, d| if sensor == 0 { Ok(30 + s.gpu(d)?.index) } else { Err(INVALID_ARGUMENT) };
}

pairs! {
    nvmlDeviceGetMigMode: c_uint = Session::mig_mode;
    nvmlDeviceGetCudaComputeCapability: c_int = |s: &mut Session, d| Ok(s.gpu(d)?.cuda);
}

device_getters! {
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle: Handle = |s, d| Ok(s.parent_handle(d)? as Handle);
    nvmlDeviceGetIndex: c_uint = |s, d| s.index(d);
    nvmlDeviceGetMinorNumber: c_uint = |s, d| Ok(s.gpu(d)?.index);
    nvmlDeviceGetPciInfo_v3: PciInfo = |s, d| s.pci_info(d);
    nvmlDeviceGetMemoryInfo: Memory = |s, d| Ok(s.memory(d)?.v1());
    nvmlDeviceGetBAR1MemoryInfo: Memory = |_, _| Ok(Memory { total: BAR1, free: BAR1, used: 0 });
    nvmlDeviceGetAttributes_v2: DeviceAttributes = |s, d| s.attributes(d);
    nvmlDeviceGetMaxMigDeviceCount: c_uint = |s, d| s.max_mig_devices(d);
    nvmlDeviceIsMigDeviceHandle: c_uint = |_, d| Ok(matches!(d, Device::Mig(..)).into());
    nvmlDeviceGetGpuInstanceId: c_uint = |s, d| Ok(s.mig(d)?.gi);
    nvmlDeviceGetComputeInstanceId: c_uint = |s, d| Ok(s.mig(d)?.ci);
    nvmlDeviceGetComputeMode: c_uint = |s, d| s.compute_mode(d);
    nvmlDeviceGetPersistenceMode: c_uint = |s, d| s.persistence_mode(d);
    nvmlDeviceGetUnrepairableMemoryFlag_v1: c_uint = |s, d| s.unrepairable(d);
    nvmlDeviceGetRetiredPagesPendingStatus: c_uint = |s, d| s.pages_pending(d);
    nvmlDeviceGetNumaNodeId: c_uint = |s, d| s.gpu(d)?.numa_node.ok_or(NOT_SUPPORTED);
    nvmlDeviceGetUtilizationRates: Utilization = |s, d| s.utilization(d);
    nvmlDeviceGetPowerUsage: c_uint = |s, d| s.gpu(d).map(|gpu| (60 + gpu.index) * 1000);
    nvmlDeviceGetConfComputeMemSizeInfo: [u64; 2] = |_, _| Err(NOT_SUPPORTED);
    nvmlDeviceGetRunningProcessDetailList: c_void = |_, _| Err(NOT_SUPPORTED);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: Handle, out: *mut MemoryV2) -> c_int {
    // SAFETY: the caller vouches for `out`; only its version word is read.
    let version = unsafe { copy::get(out.cast::<u32>()) };
    let answer = |s: &mut Session, d| match (s.memory(d)?, version?) {
        (figures, MEMORY_V2) => Ok(figures.v2(MEMORY_V2)),
        _ => Err(ARGUMENT_VERSION_MISMATCH),
    };
    // SAFETY: the version word says that the caller means this structure.
    unsafe { put_answer("nvmlDeviceGetMemoryInfo_v2", &device(handle), out, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(handle: Handle, out: *mut FabricInfo) -> c_int {
    // SAFETY: the caller vouches for `out`; only its version word is read.
    let version = unsafe { copy::get(out.cast::<u32>()) };
    let answer = |s: &mut Session, d| match version? {
        FABRIC_V2 => s.fabric(d),
        _ => Err(ARGUMENT_VERSION_MISMATCH),
    };
    // SAFETY: the version word says that the caller means this structure.
    unsafe { put_answer("nvmlDeviceGetGpuFabricInfoV", &device(handle), out, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetRemappedRows(
    handle: Handle,
    corrected: *mut c_uint,
    uncorrected: *mut c_uint,
    pending: *mut c_uint,
    failed: *mut c_uint,
) -> c_int {
    let places = [corrected, uncorrected, pending, failed];
    let reply = LIBRARY.enter("nvmlDeviceGetRemappedRows", &device(handle));
    code(reply.and_then(|entered| {
        if let Lie::Noise(mut noise) = entered.lie {
            // SAFETY: the caller vouches for all four.
            let put = |place| unsafe { copy::put_noise(place, &mut noise) };
            return places.into_iter().try_for_each(put);
        }
        let rows = LIBRARY.answer(|session| session.remapped_rows(entered.device))?;
        // SAFETY: the caller vouches for all four.
        let put = |(place, number)| unsafe { copy::put(place, number) };
        places.into_iter().zip(rows).try_for_each(put)
    }))
}

/// Each value has a return code of its own; only fields that are simulated have one.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFieldValues(
    handle: Handle,
    count: c_int,
    values: *mut FieldValue,
) -> c_int {
    let reply = LIBRARY.enter("nvmlDeviceGetFieldValues", &device(handle));
    code(reply.and_then(|entered| {
        let count = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
        if let Lie::Noise(mut noise) = entered.lie {
            // SAFETY: the caller vouches for so many values.
            return unsafe { copy::put_noises(values, count, &mut noise) };
        }
        for n in 0..count {
            // SAFETY: the caller vouches for so many values.
            let place = unsafe { values.add(n) };
            // SAFETY: as above.
            let asked = unsafe { copy::get(place) }?;
            let told =
                LIBRARY.answer(|session| Ok(session.field(entered.device, asked.field_id)))?;
            // SAFETY: as above.
            unsafe { copy::put(place, asked.answered(told)) }?;
        }
        Ok(())
    }))
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
    let reply = LIBRARY.enter(function, &device(handle));
    code(reply.and_then(|entered| {
        if size == 0 || out.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        if let Lie::Noise(mut noise) = entered.lie {
            // SAFETY: as this function's.
            return unsafe { copy::put_noises(out, size as usize, &mut noise) };
        }
        let cpus = LIBRARY.answer(|session| Ok(session.gpu(entered.device)?.cpus.clone()))?;
        let words = affinity::words(&cpus, size as usize).into_iter();
        for (n, word) in words.enumerate() {
            // SAFETY: n is below `size`, for which the caller vouches.
            unsafe { copy::put(out.add(n), word) }?;
        }
        Ok(())
    }))
}
