//! Descriptors that stand for a process, whatever process gets its number later: what is awaited and
//! asked to end through one is never another process.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::signal::Signal;

use crate::sys;

/// Such a descriptor (pidfd_open(2), Linux 5.3), readable when the process has exited; none on an
/// older kernel, or if there is no such process.
pub fn open(pid: i32) -> Option<OwnedFd> {
    // SAFETY: two numbers; the kernel checks both.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    (fd >= 0).then(|| sys::own_fd(fd as i32))
}

/// Sends a signal to the process (pidfd_send_signal(2)); whether it could be sent.
pub fn send(fd: &OwnedFd, signal: Signal) -> bool {
    let (fd, no_info) = (fd.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: a null pointer asks the kernel to fill in the information as for kill(2).
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal as i32, no_info, 0) == 0 }
}
