//! Children that are made and waited for without the C library: fork(2) by its system call
//! alone, with any exit signal or none, and waitpid(2) until a deadline.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::procfs::Stat;
use crate::run_clock;

/// How long a killed child is waited for. In D state it does not even die.
const KILLED: Duration = Duration::from_millis(100);
/// The longest pause between two looks whether a child has exited. A pidfd would tell at
/// once, but a wrapped program under valgrind 3.19 then begins with a warning about it.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// fork(2) by the system call alone: glibc's runs handlers of the process and takes the
/// allocator's locks. With exit signal 0 the parent gets no SIGCHLD, and only a wait with
/// __WALL returns the child.
///
/// # Safety
///
/// Unless this process has one thread, the child makes system calls alone.
pub(crate) unsafe fn clone_process(exit_signal: libc::c_int) -> nix::Result<libc::pid_t> {
    // SAFETY: without flags no memory is shared; what the child may do is the caller's
    // promise.
    let pid = unsafe { libc::syscall(libc::SYS_clone, exit_signal, 0, 0, 0, 0) };
    Errno::result(pid).map(|pid| pid as libc::pid_t)
}

/// Ends this process and goes on in a fork of it, which has used no processor time yet. False if
/// this is the process that was there before: it has several threads, or could not fork.
pub fn go_on_in_fork() -> bool {
    let own = Stat::read(std::process::id() as i32);
    if own.is_none_or(|own| own.threads != 1) {
        return false;
    }
    // SAFETY: this process has one thread, as it was just read, and starts none meanwhile.
    match unsafe { clone_process(libc::SIGCHLD) } {
        Ok(0) => true,
        Ok(_) => crate::sys::end(0),
        Err(_) => false,
    }
}

/// Waits for a child of either kind; its exit status, -1 if a signal ended it or it is no
/// child of this process, none if it still runs at `deadline`, a time of `run_clock`.
pub fn reap(pid: Pid, deadline: Instant) -> Option<i32> {
    let mut pause = Duration::from_micros(20);
    loop {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
            Ok(WaitStatus::Exited(_, status)) => return Some(status),
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            _ => return Some(-1),
        }
        if run_clock::now() >= deadline {
            return None;
        }
        run_clock::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Kills a child and waits for it, so that no zombie is left; one in the middle of a call
/// that even SIGKILL does not end is given up after a moment.
pub fn kill_and_reap(pid: Pid) {
    let _ = kill(pid, Signal::SIGKILL);
    reap(pid, run_clock::now() + KILLED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_child_leaves_no_zombie() {
        let child = std::process::Command::new("sleep").arg("100").spawn();
        let pid = Pid::from_raw(child.unwrap().id() as i32);
        assert_eq!(reap(pid, run_clock::now()), None);
        kill_and_reap(pid);
        assert_eq!(waitpid(pid, None), Err(Errno::ECHILD));
    }
}
