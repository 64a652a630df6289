//! Resets a forked process before it executes: it keeps two descriptors of the process
//! that forked it, at 3 and 4, and nothing else. For the small processes of this package
//! that outlive the call that made them, the holder of a reservation and the keeper of an
//! MPS daemon.
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use crate::descriptors;

/// Where the first descriptor is to be found.
pub const FIRST: RawFd = 3;
/// Where the second descriptor is to be found.
pub const SECOND: RawFd = 4;

/// Standard streams on /dev/null, `first` and `second` at 3 and 4, every other descriptor
/// closed, working directory `/`, every signal with its default action and none blocked.
/// False if the descriptors cannot be put there: such a process must end, since it would
/// be taken for one that holds what it was given.
#[must_use]
pub fn arrange(first: RawFd, second: RawFd) -> bool {
    // SAFETY: only system calls on plain numbers, in a process that executes or ends
    // right after; the set is initialised by sigemptyset.
    unsafe {
        // Out of the way first, since the places 3 and 4 may be each other's.
        let first = libc::fcntl(first, libc::F_DUPFD, 10);
        let second = libc::fcntl(second, libc::F_DUPFD, 10);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if first < 0 || second < 0 || null < 0 {
            return false;
        }
        for (from, to) in [
            (null, 0),
            (null, 1),
            (null, 2),
            (first, FIRST),
            (second, SECOND),
        ] {
            if libc::dup2(from, to) < 0 {
                return false;
            }
        }
        descriptors::close_from(SECOND + 1);
        libc::chdir(c"/".as_ptr());
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    true
}
