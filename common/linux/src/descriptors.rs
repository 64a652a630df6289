//! Descriptors of this process: closing all that a new process must not have, and placing
//! those that a program is to keep. What is called between fork and exec here allocates
//! nothing, since another thread of the forked process may have held the allocator.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

/// A high descriptor is near this number, or near the limit if that is lower.
const HIGH: i32 = 900;
/// The most descriptors that a process can have, unless root has raised fs.nr_open (proc(5)).
const MOST_NUMBERS: u64 = 1 << 20;

/// The same descriptor at 3 or above: with a closed standard stream, open(2) would give
/// its number.
///
/// # Errors
///
/// No descriptor is left.
pub fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    at_least(&fd, 3)
}

/// A connection with another process: both ends close-on-exec and above the standard streams.
///
/// # Errors
///
/// No descriptor is left.
pub fn socket_pair(kind: SockType) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?;
    Ok((above_standard(ours)?, above_standard(theirs)?))
}

/// A close-on-exec copy at the lowest free number from `lowest` on.
pub(crate) fn at_least(fd: &OwnedFd, lowest: i32) -> io::Result<OwnedFd> {
    let copy = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(lowest))?;
    Ok(crate::sys::own_fd(copy))
}

/// The same description at the lowest number from 3 on.
pub fn lowest(fd: OwnedFd) -> OwnedFd {
    match at_least(&fd, 3) {
        Ok(lower) if lower.as_raw_fd() < fd.as_raw_fd() || fd.as_raw_fd() < 3 => lower,
        _ => fd,
    }
}

/// The same description at a high number; none where only low ones exist.
pub fn highest(fd: &OwnedFd) -> Option<OwnedFd> {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(HIGH, |(soft, _)| {
        i32::try_from(soft).unwrap_or(HIGH).min(HIGH)
    });
    let lowest_high = fd.as_raw_fd() + 1;
    (lowest_high..limit)
        .rev()
        .take(32)
        .find_map(|target| at_least(fd, target).ok())
}

/// Has every program that this process executes inherit the descriptor.
pub fn inherit(fd: RawFd) {
    // SAFETY: this only clears the close-on-exec flag of a number; one that is not open
    // is an error that changes nothing.
    unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
}

/// Keeps a descriptor open as long as this process lives, and has its programs inherit it.
pub fn keep_open(fd: OwnedFd) {
    inherit(fd.into_raw_fd());
}

/// Takes the inherited descriptor of this number, if it is above the standard streams and the writing
/// end of a pipe; no program that this process executes has it. To be asked before this process opens
/// anything, and once for a number.
pub fn take_writer(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: fcntl reads flags and fstat writes into `stat`; a number that is not open is an error.
    let is_writer = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        let flags = libc::fcntl(number, libc::F_GETFL);
        number > 2
            && flags >= 0
            && flags & libc::O_ACCMODE == libc::O_WRONLY
            && libc::fstat(number, &raw mut stat) == 0
            && stat.st_mode & libc::S_IFMT == libc::S_IFIFO
            && libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) == 0
    };
    is_writer.then(|| crate::sys::own_fd(number))
}

/// Closes every descriptor from `first` on (close_range(2), Linux 5.9; else all numbers that
/// the limit allows, a million at most). For a process that has just been forked and uses none
/// of them.
pub fn close_from(first: RawFd) {
    // SAFETY: the numbers are closed and not used again in this process.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } != 0 {
        close_numbers(first);
    }
}

fn close_numbers(first: RawFd) {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    for fd in first..limit.min(MOST_NUMBERS) as RawFd {
        // SAFETY: the numbers are not used again.
        unsafe { libc::close(fd) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `close` in a child that has many descriptors, and gives how many it has left.
    fn left_after(close: fn(RawFd)) -> i32 {
        // SAFETY: the child makes system calls alone and ends by _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                for _ in 0..200 {
                    libc::dup(2);
                }
                close(3);
                let open = (3..1000).filter(|fd| libc::fcntl(*fd, libc::F_GETFD) >= 0);
                libc::_exit(open.count().min(100) as i32);
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            libc::WEXITSTATUS(status)
        }
    }

    #[test]
    fn every_way_to_close_leaves_none() {
        for close in [close_from, close_numbers] {
            assert_eq!(left_after(close), 0);
        }
    }
}
