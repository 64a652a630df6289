//! x86-64: the number of a call is in a register, and so is what the call gives.
//! Its table of calls (arch/x86/entry/syscalls/syscall_64.tbl) has the oldest ones too.

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;

pub const ACCESS: i64 = libc::SYS_access;
pub const DUP2: i64 = libc::SYS_dup2;
pub const MKDIR: i64 = libc::SYS_mkdir;
pub const POLL: i64 = libc::SYS_poll;
pub const READLINK: i64 = libc::SYS_readlink;
pub const RENAME: i64 = libc::SYS_rename;

pub const OF_LOADER: &[i64] = &[libc::SYS_arch_prctl];

/// Where in its arguments an older call has its path.
pub(crate) const OLDER_PATHS: &[(i64, usize)] = &[
    (ACCESS, 0),
    (MKDIR, 0),
    (READLINK, 0),
    (RENAME, 1),
    (libc::SYS_open, 0),
    (libc::SYS_stat, 0),
    (libc::SYS_unlink, 0),
];

/// At the entry: the call will not be made.
pub(crate) fn leave_out(pid: Pid) -> nix::Result<()> {
    let mut registers = ptrace::getregs(pid)?;
    registers.orig_rax = u64::MAX;
    ptrace::setregs(pid, registers)
}

/// At the exit: what the call gives is this error.
pub(crate) fn give(pid: Pid, error: Errno) -> nix::Result<()> {
    let mut registers = ptrace::getregs(pid)?;
    registers.rax = -(error as i64) as u64;
    ptrace::setregs(pid, registers)
}
