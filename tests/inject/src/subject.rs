//! What a system call is about, read from the stopped process: the path that it names, or
//! the file behind its descriptor, with the command of fcntl(2), or the type of the lock that it sets.

use std::os::unix::fs::FileExt;

use nix::libc;

use crate::Call;
use crate::processor::{OLDER_PATHS, calls};

/// Commands of fcntl(2).
const COMMANDS: [(i32, &str); 9] = [
    (libc::F_OFD_SETLK, "F_OFD_SETLK"),
    (libc::F_OFD_GETLK, "F_OFD_GETLK"),
    (libc::F_DUPFD_CLOEXEC, "F_DUPFD_CLOEXEC"),
    (libc::F_DUPFD, "F_DUPFD"),
    (libc::F_GETFD, "F_GETFD"),
    (libc::F_SETFD, "F_SETFD"),
    (libc::F_GETFL, "F_GETFL"),
    (libc::F_SETFL, "F_SETFL"),
    (libc::F_ADD_SEALS, "F_ADD_SEALS"),
];

/// Where in its arguments a call has the path that it is about.
const PATHS: [(i64, usize); 13] = [
    (libc::SYS_openat, 1),
    (libc::SYS_newfstatat, 1),
    (libc::SYS_statx, 1),
    (libc::SYS_faccessat, 1),
    (libc::SYS_faccessat2, 1),
    (libc::SYS_readlinkat, 1),
    (libc::SYS_mkdirat, 1),
    (libc::SYS_unlinkat, 1),
    (libc::SYS_renameat2, 3),
    (libc::SYS_fchmodat, 1),
    (libc::SYS_execveat, 1),
    (libc::SYS_execve, 0),
    (libc::SYS_statfs, 0),
];

/// Calls whose first argument is a descriptor.
const DESCRIPTORS: [i64; 27] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_dup3,
    calls::DUP2,
    libc::SYS_getdents64,
    libc::SYS_flock,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fstatfs,
    libc::SYS_fchdir,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
    libc::SYS_pidfd_send_signal,
];

/// The subject of a call that `pid`, stopped before it, is about to make.
pub(crate) fn of(pid: i32, number: i64, arguments: &[u64; 6]) -> String {
    let path = PATHS
        .iter()
        .chain(OLDER_PATHS)
        .find(|(call, _)| *call == number);
    if let Some(path) = path.and_then(|(_, at)| text(pid, arguments[*at])) {
        let relative_to = match number {
            libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_statx if !path.starts_with('/') => {
                descriptor(pid, arguments[0])
            }
            _ => String::new(),
        };
        return match (relative_to.is_empty(), path.is_empty()) {
            (true, _) => path,
            (false, true) => relative_to,
            (false, false) => format!("{relative_to}/{path}"),
        };
    }
    if number == libc::SYS_fcntl {
        let command = COMMANDS.iter().find(|(it, _)| *it as u64 == arguments[1]);
        let command = match command.map_or("other", |(_, name)| name) {
            // struct flock begins with its l_type.
            "F_OFD_SETLK" => match lock_type(pid, arguments[2]) {
                Some(libc::F_RDLCK) => "F_RDLCK",
                Some(libc::F_WRLCK) => "F_WRLCK",
                _ => "F_UNLCK",
            },
            name => name,
        };
        return format!("{command} {}", descriptor(pid, arguments[0]));
    }
    if DESCRIPTORS.contains(&number) {
        return descriptor(pid, arguments[0]);
    }
    String::new()
}

/// What is the same of a subject in every run: sandboxes have paths, and sockets numbers, of
/// their own.
pub(crate) fn kind(subject: &str) -> String {
    let (command, path) = match subject.split_once(' ') {
        Some((command, path)) if command.starts_with("F_") => (command, path),
        _ => ("", subject),
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.split(":[").next().unwrap_or(name);
    format!("{command} {name}")
}

/// What is behind a descriptor; empty for none (AT_FDCWD, or closed).
fn descriptor(pid: i32, number: u64) -> String {
    let number = number as u32 as i32;
    let target = std::fs::read_link(format!("/proc/{pid}/fd/{number}"));
    target.map_or_else(|_| String::new(), |path| path.display().to_string())
}

/// The `l_type` of the struct flock at an address (fcntl(2)).
fn lock_type(pid: i32, address: u64) -> Option<i32> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut kind = [0; 2];
    memory.read_exact_at(&mut kind, address).ok()?;
    Some(i32::from(i16::from_ne_bytes(kind)))
}

/// The range that a stopped call of fcntl(2) asks about or locks: its first byte and its length
/// in bytes. None for other calls and commands.
pub fn lock_range(call: &Call) -> Option<(i64, i64)> {
    let commands = [libc::F_OFD_SETLK, libc::F_OFD_GETLK].map(|command| command as u64);
    if call.number != libc::SYS_fcntl || !commands.contains(&call.arguments[1]) {
        return None;
    }
    let memory = std::fs::File::open(format!("/proc/{}/mem", call.pid)).ok()?;
    // l_type and l_whence are 16 bits each, l_start and l_len 64.
    let member = |at: usize| {
        let mut bytes = [0; 8];
        let address = call.arguments[2] + at as u64;
        memory.read_exact_at(&mut bytes, address).ok()?;
        Some(i64::from_ne_bytes(bytes))
    };
    Some((
        member(std::mem::offset_of!(libc::flock, l_start))?,
        member(std::mem::offset_of!(libc::flock, l_len))?,
    ))
}

/// The text at an address, up to its nul.
fn text(pid: i32, address: u64) -> Option<String> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = Vec::new();
    // A page at a time: the one behind the text need not be there.
    while bytes.len() < 4096 {
        let at = address + bytes.len() as u64;
        let mut page = vec![0; 4096 - (at % 4096) as usize];
        memory.read_exact_at(&mut page, at).ok()?;
        if let Some(end) = page.iter().position(|byte| *byte == 0) {
            bytes.extend(&page[..end]);
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.extend(page);
    }
    None
}
