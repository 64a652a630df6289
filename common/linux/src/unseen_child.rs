//! Starting a program that the starting process never sees as a child: an intermediate
//! made by clone with exit signal 0, which does not exec, forks it, waits for it and
//! exits, and is reaped with __WALL. wait(-1) does not return it, no SIGCHLD is sent, and
//! no zombie is left, also in process 1 or a subreaper: what a killed program leaves is
//! the intermediate's.
//!
//! The starting process may have any number of threads and signal handlers. So whatever
//! the program needs is prepared before the first clone, the intermediate blocks every
//! signal, and it makes system calls alone: another thread may have held the allocator.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use crate::blocked_signals::BlockedSignals;
use crate::child::{clone_process, reap};
use crate::run_clock;
use crate::{descriptors, sys};

/// How long the intermediate waits for a program that it has killed. In D state it does
/// not even die.
const LAST_WAIT: Duration = Duration::from_millis(200);
/// How long the intermediate sleeps between two looks at a signal that it may have missed.
const SLICE: libc::c_long = 50_000_000;

/// A program with all that its start needs.
#[derive(Debug)]
pub struct ChildPlan {
    program: CString,
    /// Ended by a null pointer each; they point into `_strings`.
    words: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    _strings: Vec<CString>,
}

impl ChildPlan {
    /// `program` with these words, its name first, and this process's environment, but
    /// for what would load libraries into it and for the variables called `without`.
    pub fn new(program: &Path, words: &[impl AsRef<OsStr>], without: &[&str]) -> Self {
        let words: Vec<CString> = words
            .iter()
            .map(|word| sys::c_string(word.as_ref().as_bytes()))
            .collect();
        let environment: Vec<CString> = std::env::vars_os()
            .filter(|(name, _)| !without.iter().any(|left_out| name == left_out))
            .filter_map(|(name, value)| {
                let value = cleaned(&name, &value)?;
                Some(sys::c_string(&[name.as_bytes(), b"=", &value].concat()))
            })
            .collect();
        Self {
            program: sys::c_string(program.as_os_str().as_bytes()),
            words: sys::pointers(&words),
            environment: sys::pointers(&environment),
            _strings: words.into_iter().chain(environment).collect(),
        }
    }
}

/// The program loads libraries that its starter may never use, so nothing that a user set
/// for the latter is loaded on the way.
fn cleaned(name: &OsStr, value: &OsStr) -> Option<Vec<u8>> {
    match name.as_bytes() {
        b"LD_PRELOAD" | b"LD_AUDIT" => None,
        b"LD_LIBRARY_PATH" => absolute_entries(value.as_bytes()),
        _ => Some(value.as_bytes().to_vec()),
    }
}

/// The absolute entries of a list of directories, as ld.so(8) separates them; none: no
/// list.
pub fn absolute_entries(list: &[u8]) -> Option<Vec<u8>> {
    let entries = list.split(|b| matches!(b, b':' | b';'));
    let absolute = entries.filter(|entry| entry.starts_with(b"/"));
    let kept = absolute.collect::<Vec<_>>().join(&b':');
    (!kept.is_empty()).then_some(kept)
}

/// The running program.
#[derive(Debug)]
pub struct UnseenChild {
    intermediate: Pid,
}

/// Starts the program with `input` as its standard input and `errors` as its standard
/// error; every other descriptor of this process is closed in it. Both must lie above the
/// standard streams.
///
/// # Errors
///
/// Those of clone(2). A program that cannot be executed exits with status 1.
pub fn start(
    plan: &ChildPlan,
    input: &OwnedFd,
    errors: Option<&OwnedFd>,
) -> nix::Result<UnseenChild> {
    let parent = std::process::id();
    let (input, errors) = (input.as_raw_fd(), errors.map(AsRawFd::as_raw_fd));
    // A handler of this process must not run in the copy of it.
    let blocked = BlockedSignals::of(&SigSet::all());
    // SAFETY: the intermediate makes system calls alone.
    let cloned = unsafe { clone_process(0) };
    if cloned == Ok(0) {
        intermediate(plan, parent, input, errors);
    }
    drop(blocked);
    let intermediate = Pid::from_raw(cloned?);
    Ok(UnseenChild { intermediate })
}

impl UnseenChild {
    /// Waits until the program has exited, until `deadline` of `run_clock` at most; whether it did so
    /// with status 0. Else it is killed and not waited for any longer.
    pub fn end(self, deadline: Instant) -> bool {
        if let Some(status) = reap(self.intermediate, deadline) {
            return status == 0;
        }
        // It kills the program, if that is possible.
        let _ = nix::sys::signal::kill(self.intermediate, Signal::SIGTERM);
        let _ = reap(self.intermediate, run_clock::now() + 2 * LAST_WAIT);
        false
    }
}

/// The intermediate's whole life, with every signal blocked; it never returns.
fn intermediate(plan: &ChildPlan, parent: u32, input: RawFd, errors: Option<RawFd>) -> ! {
    sys::die_with(parent);
    let own = std::process::id();
    let watched = [Signal::SIGCHLD, Signal::SIGTERM].into_iter().collect();
    // SAFETY: system calls on this process's own signals and descriptors, which are
    // copies.
    unsafe {
        // Else what the program leaves would be found by the starting process, if that is
        // process 1 or a subreaper (prctl(2)).
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        // Ignored, it would reap the program in the kernel, and SIGTERM would not come.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let terminated = libc::signal(libc::SIGTERM, libc::SIG_DFL);
        let Ok(program) = clone_process(libc::SIGCHLD) else {
            libc::_exit(1)
        };
        if program == 0 {
            if terminated == libc::SIG_IGN {
                libc::signal(libc::SIGTERM, libc::SIG_IGN);
            }
            execute(plan, own, input, errors);
        }
        // A process that waits for the end of a pipe of the starting process must not
        // wait for this one.
        descriptors::close_from(0);
        wait_for(program, &watched)
    }
}

/// Waits for the program and exits with what came of it; kills it at SIGTERM. `watched`:
/// SIGTERM and SIGCHLD, which are blocked.
fn wait_for(program: libc::pid_t, watched: &SigSet) -> ! {
    let mut deadline: Option<Instant> = None;
    let slice = libc::timespec {
        tv_sec: 0,
        tv_nsec: SLICE,
    };
    loop {
        // SAFETY: system calls on our own child, on a set and a time that are only read,
        // and a place for the status.
        unsafe {
            let mut status = 0;
            let reaped = libc::waitpid(program, &raw mut status, libc::WNOHANG);
            if reaped != 0 {
                let exited = reaped == program && libc::WIFEXITED(status);
                // What it has started dies with one that was killed, and takes a moment.
                let patience = if exited { Duration::ZERO } else { LAST_WAIT };
                reap_orphans(deadline.unwrap_or_else(|| Instant::now() + patience));
                let well = exited && libc::WEXITSTATUS(status) == 0;
                libc::_exit(if well { 0 } else { 1 });
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                libc::_exit(3);
            }
            let signal =
                libc::sigtimedwait(watched.as_ref(), std::ptr::null_mut(), &raw const slice);
            if signal == libc::SIGTERM && deadline.is_none() {
                libc::kill(program, libc::SIGKILL);
                deadline = Some(Instant::now() + LAST_WAIT);
            }
        }
    }
}

/// Waits for every child until `deadline`, and for those that have exited already. One
/// that lives on, such as a daemon, finds another parent.
fn reap_orphans(deadline: Instant) {
    let pause = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    loop {
        // SAFETY: system calls alone; the pause is only read.
        unsafe {
            let reaped = libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL);
            if reaped < 0 || (reaped == 0 && Instant::now() >= deadline) {
                return;
            }
            if reaped == 0 {
                libc::nanosleep(&raw const pause, std::ptr::null_mut());
            }
        }
    }
}

/// dup2(2), or this process ends.
fn duplicate_to(from: RawFd, to: RawFd) {
    // SAFETY: plain system calls on numbers.
    unsafe {
        if libc::dup2(from, to) != to {
            libc::_exit(1);
        }
    }
}

/// Becomes the program, with two descriptors of the starting process and no other.
fn execute(plan: &ChildPlan, parent: u32, input: RawFd, errors: Option<RawFd>) -> ! {
    sys::die_with(parent);
    // SAFETY: plain system calls on numbers and on what was prepared; on any failure the
    // process ends.
    unsafe {
        // Closed before anything is opened: the starting process may be at its limit.
        duplicate_to(input, 0);
        duplicate_to(errors.unwrap_or(input), 2);
        libc::close(1);
        descriptors::close_from(3);
        if libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) != 1 {
            libc::_exit(1);
        }
        if errors.is_none() {
            duplicate_to(1, 2);
        }
        // Batch systems send these to every process of a job that wants to be told of its
        // end. A starting process that lives on by a handler of its own is not to lose its
        // answer by them.
        libc::signal(libc::SIGUSR1, libc::SIG_IGN);
        libc::signal(libc::SIGUSR2, libc::SIG_IGN);
        let _ = SigSet::empty().thread_set_mask();
        libc::execve(
            plan.program.as_ptr(),
            plan.words.as_ptr(),
            plan.environment.as_ptr(),
        );
        libc::_exit(1)
    }
}
