//! Faults under which a correct program behaves as without them: were they not simulated,
//! the tests of the commands would pass all the same. All other faults show there.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    reason = "a panic is a failed test, and C functions are called"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use sim_node::Folder;
use sim_nvml::abi::Memory;

unsafe extern "C" {
    safe fn nvmlInit_v2() -> c_int;
    safe fn nvmlShutdown() -> c_int;
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut *mut c_void) -> c_int;
    fn nvmlDeviceGetUUID(handle: *mut c_void, uuid: *mut c_char, length: c_uint) -> c_int;
    fn nvmlDeviceGetMemoryInfo(handle: *mut c_void, memory: *mut Memory) -> c_int;
}

/// The first GPU's UUID, and the code with which its memory is told.
fn first_gpu() -> (String, c_int) {
    let (mut handle, mut uuid, mut memory) = (null_mut(), [0; 96], Memory::default());
    assert_eq!(nvmlInit_v2(), 0);
    // SAFETY: the places are this function's, and as long as said.
    let code = unsafe {
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, &mut handle), 0);
        assert_eq!(nvmlDeviceGetUUID(handle, uuid.as_mut_ptr(), 96), 0);
        nvmlDeviceGetMemoryInfo(handle, &mut memory)
    };
    assert_eq!(nvmlShutdown(), 0);
    // SAFETY: the library ends texts with a NUL.
    let uuid = unsafe { CStr::from_ptr(uuid.as_ptr()) };
    (uuid.to_str().unwrap().to_owned(), code)
}

#[test]
fn silent_gpus_in_mig_mode_and_mps_domains_are_simulated() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::create(dir.path().join("node"), "mixed").unwrap();
    let gpu = folder.node().unwrap().gpus[0].uuid.clone();
    // SAFETY: the only test of this program, and so its only thread that uses variables.
    unsafe { std::env::set_var("SIM_NODE", folder.root()) };
    assert_eq!(first_gpu(), (gpu.clone(), 0));
    folder.set_faults("no_monitor = true\n").unwrap();
    assert_eq!(first_gpu(), (gpu.clone(), 4));
    folder.set_faults("monitor_is_for_root = true\n").unwrap();
    let code = if nix::unistd::geteuid().is_root() {
        0
    } else {
        4
    };
    assert_eq!(first_gpu(), (gpu.clone(), code));
    folder.set_faults("").unwrap();
    // SAFETY: as above.
    unsafe { std::env::set_var("NVML_MPS_DEVICE_ENUMERATION", "1") };
    assert_ne!(first_gpu().0, gpu);
}
