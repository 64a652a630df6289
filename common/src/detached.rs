//! Starting a small process of ours that outlives the program, without a trace in the
//! program: no child, no signal, no descriptor. An intermediate made by clone with exit
//! signal 0 forks it and is reaped with __WALL; it is executed with an empty environment
//! and a session of its own.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::process_reset;

/// Executes `path` with these `words`, its name first, in such a process; it finds
/// `first` and `second` at descriptors 3 and 4.
///
/// # Errors
///
/// Those of clone(2) and waitpid(2). Whether the process could be executed it has to say
/// itself.
pub fn launch(path: &CStr, words: &[CString], first: RawFd, second: RawFd) -> nix::Result<()> {
    // A process that is a subreaper would find the new one among its children: for that
    // moment it is none.
    let mut reaper: libc::c_int = 0;
    // SAFETY: PR_GET_CHILD_SUBREAPER stores one int; PR_SET_CHILD_SUBREAPER takes a
    // number (prctl(2)).
    let set_reaper =
        |value: libc::c_int| unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, value, 0, 0, 0) };
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut reaper, 0, 0, 0) };
    if reaper != 0 {
        set_reaper(0);
    }
    // SAFETY: flags 0 is fork(2) with no exit signal; this process has one thread, so the
    // child may use all of its memory.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    let result = match pid {
        -1 => Err(Errno::last()),
        0 => intermediate(path, words, first, second),
        pid => loop {
            match waitpid(Pid::from_raw(pid as i32), Some(WaitPidFlag::__WALL)) {
                Err(Errno::EINTR) => {}
                Err(errno) => break Err(errno),
                Ok(_) => break Ok(()),
            }
        },
    };
    if reaper != 0 {
        set_reaper(reaper);
    }
    result
}

fn intermediate(path: &CStr, words: &[CString], first: RawFd, second: RawFd) -> ! {
    let _ = nix::unistd::setsid();
    // SAFETY: only system calls follow, in a process with one thread; _exit runs nothing
    // of the parent's.
    unsafe {
        if libc::fork() == 0 {
            execute(path, words, first, second);
        }
        libc::_exit(0)
    }
}

/// Arranges the descriptors and executes; returns only if it cannot.
fn execute(path: &CStr, words: &[CString], first: RawFd, second: RawFd) {
    if !process_reset::arrange(first, second) {
        return;
    }
    // SAFETY: two system calls on plain numbers. Somebody who is gone must not end it;
    // what it starts has the default again.
    unsafe {
        libc::umask(0o022);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    let nothing: [CString; 0] = [];
    let _ = nix::unistd::execve(path, words, &nothing);
}
