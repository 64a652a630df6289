//! aarch64: the number of a stopped call is no register but a set of its own (ptrace(2),
//! PTRACE_SETREGSET), and what the call gives is x0. Its table of calls is the generic one.
#![allow(unsafe_code)]

use std::ptr::from_mut;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;

pub const ACCESS: i64 = libc::SYS_faccessat;
pub const DUP2: i64 = libc::SYS_dup3;
pub const MKDIR: i64 = libc::SYS_mkdirat;
pub const POLL: i64 = libc::SYS_ppoll;
pub const READLINK: i64 = libc::SYS_readlinkat;
pub const RENAME: i64 = libc::SYS_renameat;

pub const OF_LOADER: &[i64] = &[];

/// Where in its arguments an older call has its path.
pub(crate) const OLDER_PATHS: &[(i64, usize)] = &[(RENAME, 3)];

/// The number of the call, one C int (linux/elf.h).
const NT_ARM_SYSTEM_CALL: usize = 0x404;

/// At the entry: the call will not be made.
pub(crate) fn leave_out(pid: Pid) -> nix::Result<()> {
    let mut none: libc::c_int = -1;
    let number = libc::iovec {
        iov_base: from_mut(&mut none).cast(),
        iov_len: size_of_val(&none),
    };
    // SAFETY: the kernel reads the iovec and the int behind it, and both outlive the call.
    let set = unsafe {
        libc::ptrace(
            libc::PTRACE_SETREGSET,
            pid.as_raw(),
            NT_ARM_SYSTEM_CALL,
            &raw const number,
        )
    };
    Errno::result(set).map(drop)
}

/// At the exit: what the call gives is this error.
pub(crate) fn give(pid: Pid, error: Errno) -> nix::Result<()> {
    let mut registers = ptrace::getregs(pid)?;
    registers.regs[0] = -(error as i64) as u64;
    ptrace::setregs(pid, registers)
}
