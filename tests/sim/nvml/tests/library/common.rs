//! The C functions as a caller sees them, and a way to call them on a node of one's own.
//! The library has one state per process, so each test runs itself again in a child with
//! its own `SIM_NODE`.
#![allow(
    unsafe_code,
    dead_code,
    reason = "calls C functions; no test uses all of this"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test with a place"
)]

use sim_node::Folder;
use sim_nvml::abi::{DeviceAttributes, Memory, MemoryV2, ProcessInfo};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

pub(crate) type Handle = *mut c_void;

unsafe extern "C" {
    pub(crate) safe fn nvmlInit_v2() -> c_int;
    pub(crate) safe fn nvmlShutdown() -> c_int;
    pub(crate) safe fn nvmlErrorString(code: c_int) -> *const c_char;
    pub(crate) fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int;
    pub(crate) fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut Handle) -> c_int;
    pub(crate) fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: *mut Handle) -> c_int;
    pub(crate) fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, handle: *mut Handle)
    -> c_int;
    pub(crate) fn nvmlDeviceGetMigDeviceHandleByIndex(
        handle: Handle,
        index: c_uint,
        mig: *mut Handle,
    ) -> c_int;
    pub(crate) fn nvmlDeviceGetName(handle: Handle, name: *mut c_char, length: c_uint) -> c_int;
    pub(crate) fn nvmlDeviceGetUUID(handle: Handle, uuid: *mut c_char, length: c_uint) -> c_int;
    pub(crate) fn nvmlDeviceGetIndex(handle: Handle, index: *mut c_uint) -> c_int;
    pub(crate) fn nvmlDeviceGetMigMode(
        handle: Handle,
        current: *mut c_uint,
        pending: *mut c_uint,
    ) -> c_int;
    pub(crate) fn nvmlDeviceGetMemoryInfo(handle: Handle, memory: *mut Memory) -> c_int;
    pub(crate) fn nvmlDeviceGetMemoryInfo_v2(handle: Handle, memory: *mut MemoryV2) -> c_int;
    pub(crate) fn nvmlDeviceGetAttributes_v2(
        handle: Handle,
        attributes: *mut DeviceAttributes,
    ) -> c_int;
    pub(crate) fn nvmlDeviceGetComputeRunningProcesses_v2(
        h: Handle,
        count: *mut c_uint,
        to: *mut ProcessInfo,
    ) -> c_int;
    pub(crate) fn nvmlDeviceGetComputeRunningProcesses_v3(
        h: Handle,
        count: *mut c_uint,
        to: *mut c_void,
    ) -> c_int;
}

/// Runs `body` in a child on this node with these faults; `test` is the name of the
/// calling test.
pub(crate) fn on_node(test: &str, node: &str, faults: &str, body: fn(&Folder)) {
    if let Some(folder) = Folder::from_env() {
        return body(&folder);
    }
    let (_dir, folder) = folder(node, faults);
    let output = again(test, &folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains(" 1 passed"), "{test} did not run: {text}");
}

/// A folder of a node with these faults.
pub(crate) fn folder(node: &str, faults: &str) -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::create(dir.path().join("node"), node).unwrap();
    folder.set_faults(faults).unwrap();
    folder.log_calls().unwrap();
    (dir, folder)
}

/// This test program once more, for one test, on a node.
pub(crate) fn again(test: &str, folder: &Folder) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let names = ["calls", "faults"].map(|module| format!("{module}::{test}"));
    command
        .args(["--exact", "--nocapture"])
        .args(names)
        .env("SIM_NODE", folder.root());
    command
}

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn has_called(folder: &Folder, function: &str) -> bool {
    folder
        .calls()
        .unwrap()
        .iter()
        .any(|call| call.function == function)
}

/// The letter of the process's state in /proc.
pub(crate) fn state(child: &Child) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

pub(crate) fn gpu(index: u32) -> Result<Handle, c_int> {
    let mut handle = null_mut();
    // SAFETY: the place is ours.
    code(unsafe { nvmlDeviceGetHandleByIndex_v2(index, &mut handle) }).map(|()| handle)
}

pub(crate) fn mig(gpu: Handle, index: u32) -> Result<Handle, c_int> {
    let mut handle = null_mut();
    // SAFETY: the place is ours.
    code(unsafe { nvmlDeviceGetMigDeviceHandleByIndex(gpu, index, &mut handle) }).map(|()| handle)
}

pub(crate) fn by_uuid(uuid: &str) -> Result<Handle, c_int> {
    let (uuid, mut handle) = (CString::new(uuid).unwrap(), null_mut());
    // SAFETY: text and place are ours.
    code(unsafe { nvmlDeviceGetHandleByUUID(uuid.as_ptr(), &mut handle) }).map(|()| handle)
}

pub(crate) fn uuid(handle: Handle) -> Result<String, c_int> {
    let mut text: [c_char; 96] = [0; 96];
    // SAFETY: the place is ours and as long as said.
    code(unsafe { nvmlDeviceGetUUID(handle, text.as_mut_ptr(), 96) })?;
    // SAFETY: the library ends texts with a NUL.
    Ok(unsafe { CStr::from_ptr(text.as_ptr()) }
        .to_string_lossy()
        .into_owned())
}

pub(crate) fn memory(handle: Handle) -> Result<Memory, c_int> {
    let mut memory = Memory::default();
    // SAFETY: the place is ours.
    code(unsafe { nvmlDeviceGetMemoryInfo(handle, &mut memory) }).map(|()| memory)
}

/// The needed count and the entries that came, for a buffer of this many entries.
pub(crate) fn processes(handle: Handle, room: u32) -> (c_int, u32, Vec<ProcessInfo>) {
    let (mut count, mut entries) = (room, vec![ProcessInfo::default(); room as usize]);
    let to = if room == 0 {
        null_mut()
    } else {
        entries.as_mut_ptr()
    };
    // SAFETY: the buffer is ours and as long as said.
    let code = unsafe { nvmlDeviceGetComputeRunningProcesses_v2(handle, &mut count, to) };
    entries.truncate(count as usize);
    (code, count, entries)
}

pub(crate) fn code(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}
