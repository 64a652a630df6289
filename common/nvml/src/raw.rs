//! The NVML calls that nvml-wrapper lacks or makes unsafely: instance ids, texts in a
//! checked buffer, memory of old drivers, and process lists at either entry size. Sizes
//! and layouts: nvml.h and its history. What nvml-wrapper still reads without a bound is
//! the driver's version, once, at init.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_uint, c_ulonglong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nvml_wrapper::{Device, Nvml};

use super::fault::{FUNCTION_NOT_FOUND, Fault, INSUFFICIENT_SIZE};
use super::processes::{self, Layout, ProcessEntry};
use getgpu_model::Memory;

/// NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE, in bytes.
const TEXT: usize = 96;
/// NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE, in bytes.
const VERSION: usize = 80;
/// sizeof(nvmlPciInfo_t), in words of 8 bytes and rounded up, and where its `busId` lies.
const PCI_WORDS: usize = 9;
const PCI_BUS_ID: std::ops::Range<usize> = 36..68;
/// The version word of nvmlGpuFabricInfo_v2_t, with its size in bytes in it, and that size in
/// words of 4; where its `status` lies, and its `state`, which is one byte (nvml.h 13.5).
const FABRIC_V2: u32 = 0x0200_0024;
const FABRIC_WORDS: usize = 9;
const FABRIC_STATUS: usize = 5;
const FABRIC_STATE: usize = 7;
/// Room, in processes, at the first question; the kernel lists about 950 at most.
const ROOM: u32 = 64;
/// The most entries that a driver is given room for.
const MOST_ROOM: u32 = 100_000;
/// How often a process list may outgrow its buffer before we give up.
const TRIES: u32 = 5;

macro_rules! symbol {
    ($nvml:expr, $field:ident) => {
        $nvml
            .lib()
            .$field
            .as_ref()
            .map_err(|_| Fault::new(stringify!($field), FUNCTION_NOT_FOUND))
    };
}

mod limits;
mod links;

pub(super) use limits::{limit_memory, memory_limit};
pub(super) use links::{
    is_link_active, leads_to_switch, link_remote_place, pci_place, topology_level,
};

/// Loads the library for as long as this process lives (RTLD_NODELETE, dlopen(3)): what
/// it runs when it is unloaded may crash, after everything has been answered. That it
/// cannot be loaded is found out by who opens it.
pub fn keep_loaded(library: &Path) {
    let Ok(name) = CString::new(library.as_os_str().as_bytes()) else {
        return;
    };
    // SAFETY: loading runs the library's initialisers, as opening it a moment later
    // would; the handle is never closed.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NODELETE) };
}

fn check(call: &'static str, code: u32) -> Result<(), Fault> {
    if code == 0 {
        Ok(())
    } else {
        Err(Fault::new(call, code))
    }
}

/// nvmlDeviceGetUUID, bounded: a library that forgets the NUL is no reason to read on.
pub(super) fn uuid(nvml: &Nvml, device: &Device<'_>) -> Result<String, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetUUID)?;
    let mut buffer = [0u8; TEXT + 1];
    // SAFETY: the buffer has room for the length given; the handle comes from this
    // session.
    let code = unsafe { call(device.handle(), buffer.as_mut_ptr().cast(), TEXT as c_uint) };
    check("DeviceGetUUID", code)?;
    Ok(text(&buffer))
}

/// nvmlDeviceGetName, bounded likewise.
pub(super) fn name(nvml: &Nvml, device: &Device<'_>) -> Result<String, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetName)?;
    let mut buffer = [0u8; TEXT + 1];
    // SAFETY: as in `uuid`.
    let code = unsafe { call(device.handle(), buffer.as_mut_ptr().cast(), TEXT as c_uint) };
    check("DeviceGetName", code)?;
    Ok(text(&buffer))
}

/// nvmlSystemGetDriverVersion, bounded likewise.
pub(super) fn driver_version(nvml: &Nvml) -> Result<String, Fault> {
    let call = symbol!(nvml, nvmlSystemGetDriverVersion)?;
    let mut buffer = [0u8; VERSION + 1];
    // SAFETY: the buffer has room for the length given.
    let code = unsafe { call(buffer.as_mut_ptr().cast(), VERSION as c_uint) };
    check("SystemGetDriverVersion", code)?;
    Ok(text(&buffer))
}

/// The bus id of nvmlDeviceGetPciInfo_v3, bounded likewise.
pub(super) fn pci_bus_id(nvml: &Nvml, gpu: &Device<'_>) -> Result<String, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetPciInfo_v3)?;
    let mut info = [0u64; PCI_WORDS];
    // SAFETY: nvmlPciInfo_t has 68 bytes, and numbers of four bytes among them.
    let code = unsafe { call(gpu.handle(), info.as_mut_ptr().cast()) };
    check("DeviceGetPciInfo_v3", code)?;
    let bytes: Vec<u8> = info.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(text(&bytes[PCI_BUS_ID]))
}

/// The text in a buffer, up to the first NUL, if there is one.
fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&buffer[..end.unwrap_or(buffer.len())]).into_owned()
}

/// nvmlDeviceGetGpuInstanceId and nvmlDeviceGetComputeInstanceId of a MIG device.
pub(super) fn instance(nvml: &Nvml, device: &Device<'_>) -> Result<(u32, u32), Fault> {
    let gi_call = symbol!(nvml, nvmlDeviceGetGpuInstanceId)?;
    let ci_call = symbol!(nvml, nvmlDeviceGetComputeInstanceId)?;
    let (mut gi, mut ci): (c_uint, c_uint) = (0, 0);
    // SAFETY: both take a handle and a place for one unsigned int.
    check("DeviceGetGpuInstanceId", unsafe {
        gi_call(device.handle(), &raw mut gi)
    })?;
    // SAFETY: as above.
    check("DeviceGetComputeInstanceId", unsafe {
        ci_call(device.handle(), &raw mut ci)
    })?;
    Ok((gi, ci))
}

/// nvmlDeviceGetMemoryInfo, first version (drivers before 510): total, free, used in
/// bytes.
pub(super) fn memory_v1(nvml: &Nvml, device: &Device<'_>) -> Result<Memory, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetMemoryInfo)?;
    let mut numbers: [c_ulonglong; 3] = [0; 3];
    // SAFETY: nvmlMemory_t is three unsigned long longs (24 bytes).
    check("DeviceGetMemoryInfo", unsafe {
        call(device.handle(), numbers.as_mut_ptr().cast())
    })?;
    Ok(Memory {
        total: numbers[0],
        used: numbers[2],
    })
}

/// Whether the memory of a GPU (not of a MIG device) is a NUMA node of the host
/// (nvmlDeviceGetNumaNodeId).
pub(super) fn is_numa_node(nvml: &Nvml, gpu: &Device<'_>) -> bool {
    let Ok(call) = symbol!(nvml, nvmlDeviceGetNumaNodeId) else {
        return false;
    };
    let mut node: c_uint = 0;
    // SAFETY: a handle and a place for one unsigned int.
    check("DeviceGetNumaNodeId", unsafe {
        call(gpu.handle(), &raw mut node)
    })
    .is_ok()
}

/// nvmlDeviceGetComputeMode as a number, since the wrapper gives a number that it does not know
/// the form of an error.
pub(super) fn compute_mode(nvml: &Nvml, device: &Device<'_>) -> Result<u32, Fault> {
    let call = symbol!(nvml, nvmlDeviceGetComputeMode)?;
    let mut mode: c_uint = 0;
    // SAFETY: a handle and a place for one enum, which is an unsigned int.
    check("DeviceGetComputeMode", unsafe {
        call(device.handle(), &raw mut mode)
    })?;
    Ok(mode)
}

/// The state of a whole GPU's NVLink fabric and the status of its registration
/// (nvmlDeviceGetGpuFabricInfoV, drivers from 550 on).
pub(super) fn fabric(nvml: &Nvml, gpu: &Device<'_>) -> Result<(u8, u32), Fault> {
    let call = symbol!(nvml, nvmlDeviceGetGpuFabricInfoV)?;
    let mut info = [0u32; FABRIC_WORDS];
    info[0] = FABRIC_V2;
    // SAFETY: the version word says that the room is that of the second version, 36 bytes.
    let code = unsafe { call(gpu.handle(), info.as_mut_ptr().cast()) };
    check("DeviceGetGpuFabricInfoV", code)?;
    Ok((info[FABRIC_STATE].to_ne_bytes()[0], info[FABRIC_STATUS]))
}

/// Whether the node's GPUs accept work under confidential computing
/// (nvmlSystemGetConfComputeGpusReadyState, drivers from 535 on).
pub(super) fn accepts_work(nvml: &Nvml) -> Result<bool, Fault> {
    let call = symbol!(nvml, nvmlSystemGetConfComputeGpusReadyState)?;
    let mut accepts: c_uint = 1;
    // SAFETY: a place for one unsigned int.
    let code = unsafe { call(&raw mut accepts) };
    check("SystemGetConfComputeGpusReadyState", code)?;
    Ok(accepts != 0)
}

/// Whether a GPU's memory has an error that cannot be repaired (nvmlDeviceGetUnrepairableMemoryFlag_v1,
/// drivers from 590 on), by a function that nvml-wrapper does not know.
pub(super) fn has_unrepairable_memory(nvml: &Nvml, gpu: &Device<'_>) -> Result<bool, Fault> {
    let mut flag: c_uint = 0;
    let place = (&raw mut flag).cast();
    // SAFETY: nvml.h 13.5: a handle and a structure of one unsigned int.
    unsafe { call_newer(nvml, gpu, c"nvmlDeviceGetUnrepairableMemoryFlag_v1", place) }?;
    Ok(flag != 0)
}

/// Calls a function of a device and a structure that nvml-wrapper does not know.
///
/// # Safety
/// nvml.h has a function of this name with these two arguments, and `structure` is its second one.
unsafe fn call_newer(
    nvml: &Nvml,
    gpu: &Device<'_>,
    function: &'static CStr,
    structure: *mut c_void,
) -> Result<(), Fault> {
    let name = function.to_str().unwrap_or_default();
    let name = name.strip_prefix("nvml").unwrap_or(name);
    let init = symbol!(nvml, nvmlInit_v2)?;
    // SAFETY: dladdr(3) fills the structure in for an address inside the library, whose name it then
    // points to; the library is loaded already, and stays so, since it was loaded with RTLD_NODELETE.
    let found = unsafe {
        let mut place: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(*init as *const c_void, &raw mut place) == 0 {
            return Err(Fault::new(name, FUNCTION_NOT_FOUND));
        }
        let library = libc::dlopen(place.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        libc::dlsym(library, function.as_ptr())
    };
    if found.is_null() {
        return Err(Fault::new(name, FUNCTION_NOT_FOUND));
    }
    // SAFETY: as this function's.
    let code = unsafe {
        let call: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_uint =
            std::mem::transmute(found);
        call(gpu.handle().cast(), structure)
    };
    check(name, code)
}

/// nvmlDeviceGetRemappedRows of a GPU, Ampere or newer, and not in MIG mode: whether some of its faulty
/// memory rows are remapped at the next reset, and whether one could not be.
pub(super) fn remapped_rows(nvml: &Nvml, gpu: &Device<'_>) -> Result<(bool, bool), Fault> {
    let call = symbol!(nvml, nvmlDeviceGetRemappedRows)?;
    let mut numbers: [c_uint; 4] = [0; 4];
    let [corrected, uncorrected, pending, failed] = &mut numbers;
    // SAFETY: a handle and four places for an unsigned int each.
    let code = unsafe { call(gpu.handle(), corrected, uncorrected, pending, failed) };
    check("DeviceGetRemappedRows", code)?;
    Ok((*pending != 0, *failed != 0))
}

/// Which list of processes is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessList {
    /// Processes with a compute context.
    Compute,
    /// Processes with a graphics context.
    Graphics,
    /// Clients of an MPS server.
    Mps,
}

/// The processes of a device, whatever size of entry this driver writes.
pub(super) fn processes(
    nvml: &Nvml,
    device: &Device<'_>,
    list: ProcessList,
) -> Result<Vec<ProcessEntry>, Fault> {
    let lib = nvml.lib();
    let wide = lib.nvmlDeviceGetConfComputeMemSizeInfo.is_ok()
        && lib.nvmlDeviceGetRunningProcessDetailList.is_err();
    // Entry types differ between the versions; all are called with bytes and read at the
    // stride that the version writes.
    macro_rules! ask {
        ($function:ident, $layout:expr) => {
            if let Ok(call) = lib.$function.as_ref() {
                let name = &stringify!($function)["nvml".len()..];
                let found = fill(name, $layout, |count, entries| {
                    // SAFETY: the buffer behind entries has room for *count entries of the
                    // widest layout.
                    unsafe { call(device.handle(), count, entries.cast()) }
                });
                match found {
                    Err(fault) if fault.code == FUNCTION_NOT_FOUND => {}
                    other => return other,
                }
            }
        };
    }
    let v3 = if wide { Layout::Wide } else { Layout::Present };
    match list {
        ProcessList::Compute => {
            ask!(nvmlDeviceGetComputeRunningProcesses_v3, v3);
            ask!(nvmlDeviceGetComputeRunningProcesses_v2, Layout::Present);
            ask!(nvmlDeviceGetComputeRunningProcesses, Layout::First);
        }
        ProcessList::Graphics => {
            ask!(nvmlDeviceGetGraphicsRunningProcesses_v3, v3);
            ask!(nvmlDeviceGetGraphicsRunningProcesses_v2, Layout::Present);
            ask!(nvmlDeviceGetGraphicsRunningProcesses, Layout::First);
        }
        // Drivers 470 to 495 have no third version, 450 and 460 only the first.
        ProcessList::Mps => {
            ask!(nvmlDeviceGetMPSComputeRunningProcesses_v3, v3);
            ask!(nvmlDeviceGetMPSComputeRunningProcesses_v2, Layout::Present);
            ask!(nvmlDeviceGetMPSComputeRunningProcesses, Layout::First);
        }
    }
    Err(Fault::new("DeviceGetRunningProcesses", FUNCTION_NOT_FOUND))
}

/// Asks with room to spare, again with more while the list grows.
fn fill(
    name: &'static str,
    layout: Layout,
    mut call: impl FnMut(*mut c_uint, *mut u8) -> u32,
) -> Result<Vec<ProcessEntry>, Fault> {
    let mut room = ROOM;
    for _ in 0..TRIES {
        // u64 words: entries hold 8-byte numbers, and 32 bytes each are enough for every
        // known layout.
        let mut buffer = vec![processes::FILL; room as usize * (processes::WIDEST / 8)];
        let mut count: c_uint = room;
        match call(&raw mut count, buffer.as_mut_ptr().cast()) {
            0 => return Ok(processes::decode(&buffer, count.min(room) as usize, layout)),
            INSUFFICIENT_SIZE => room = more_room(room, count),
            code => return Err(Fault::new(name, code)),
        }
    }
    Err(Fault::new(name, INSUFFICIENT_SIZE))
}

/// The room for the next question, where there was too little and the driver says that it
/// has `count` entries. The list may grow meanwhile; a driver that keeps asking for more
/// is believed up to a point.
fn more_room(room: c_uint, count: c_uint) -> c_uint {
    count.max(room).min(MOST_ROOM) + 32
}

#[cfg(test)]
mod tests {
    use super::{MOST_ROOM, more_room, text};

    #[test]
    fn a_text_ends_with_its_nul_or_its_room() {
        let texts: [&[u8]; 4] = [b"a\0b", b"abc", b"\0", b""];
        assert_eq!(texts.map(text), ["a", "abc", "", ""]);
    }

    #[test]
    fn a_driver_that_asks_for_ever_more_is_believed_up_to_a_point() {
        assert_eq!([more_room(64, 100), more_room(64, 3)], [132, 96]);
        let mut room = 64;
        for _ in 0..4 {
            room = more_room(room, 200_000);
        }
        assert_eq!(
            (room, more_room(u32::MAX, u32::MAX)),
            (MOST_ROOM + 32, MOST_ROOM + 32)
        );
    }
}
