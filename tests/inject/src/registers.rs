//! The two things about a stopped system call that differ between processors: leaving it
//! out, and what it gives. Only x86-64 is known here; elsewhere the tests say that they
//! are skipped.

use nix::errno::Errno;
use nix::unistd::Pid;

/// Whether calls can be made to fail on this processor.
pub const SUPPORTED: bool = cfg!(target_arch = "x86_64");

/// At the entry: the call will not be made.
#[cfg(target_arch = "x86_64")]
pub(crate) fn leave_out(pid: Pid) -> nix::Result<()> {
    let mut registers = nix::sys::ptrace::getregs(pid)?;
    registers.orig_rax = u64::MAX;
    nix::sys::ptrace::setregs(pid, registers)
}

/// At the exit: what the call gives is this error.
#[cfg(target_arch = "x86_64")]
pub(crate) fn give(pid: Pid, error: Errno) -> nix::Result<()> {
    let mut registers = nix::sys::ptrace::getregs(pid)?;
    registers.rax = -(error as i64) as u64;
    nix::sys::ptrace::setregs(pid, registers)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn leave_out(_pid: Pid) -> nix::Result<()> {
    Err(Errno::ENOSYS)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn give(_pid: Pid, _error: Errno) -> nix::Result<()> {
    Err(Errno::ENOSYS)
}
