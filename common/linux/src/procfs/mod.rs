//! What /proc tells about processes (proc(5)). Reading `stat`, `status` and `comm` never
//! hangs; reading `environ` and `cmdline` of a sick process can, so those stand apart in
//! `process_memory` and only the holder of a reservation uses them.

pub mod ancestry;
pub mod cgroup;
pub mod fdinfo;
pub mod file;
pub mod namespaces;
mod process;
pub mod process_memory;
pub mod run_time;
pub mod stat;
mod wrapped;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub use process::Process;
pub use stat::Stat;
pub use wrapped::{is_getgpu_or_cudawrap, program_name};

/// The ids of all processes that /proc shows.
pub fn pids() -> Vec<i32> {
    file::numbers("/proc")
}

/// Whether the kernel shows the processes of other users here: process 1 is one (hidepid of proc(5) hides
/// it).
pub fn shows_all() -> bool {
    Stat::read(1).is_some()
}

/// The effective uid of a process, or `None` if it is gone. A process that is not
/// dumpable has its /proc files owned by root, so root's answer is looked up in `status`.
pub fn euid(pid: i32) -> Option<u32> {
    let owner = owner(pid)?;
    if owner != 0 {
        return Some(owner);
    }
    effective(&String::from_utf8_lossy(
        &file::whole(&format!("/proc/{pid}/status")).ok()?,
    ))
}

/// Whether a process may run under `uid`: cheap to ask, and right unless it answers yes.
pub fn may_be_of(pid: i32, uid: u32) -> bool {
    owner(pid).is_some_and(|owner| owner == uid || owner == 0)
}

/// The owner of a process's files in /proc, or `None` if it is gone: root's are those of a process
/// that its user may not read.
pub fn owner(pid: i32) -> Option<u32> {
    file::owner(&format!("/proc/{pid}")).ok()
}

/// The effective uid in the text of a `status` file: the second of four.
fn effective(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The name of a process (at most 15 bytes), or `None` if it is gone.
pub fn comm(pid: i32) -> Option<String> {
    let bytes = file::whole(&format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned())
}

/// The file that `pid` ("self" for this process) runs; one that was deleted meanwhile, by an
/// upgrade for example, under the name that it had.
pub fn executable(pid: &str) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let bytes = path.as_os_str().as_bytes();
    let name = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    Some(OsStr::from_bytes(name).into())
}

#[cfg(test)]
#[path = "procfs_properties.rs"]
mod properties;
