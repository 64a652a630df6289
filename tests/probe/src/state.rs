//! What only system calls tell of a process: timers, flags of prctl(2), whether there is
//! a child to wait for.
#![allow(unsafe_code)]

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitPidFlag, waitpid};

/// Name and value of each.
pub(crate) fn facts() -> Vec<(&'static str, String)> {
    let waited = waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL));
    let waited = waited.map_or_else(|errno| errno.to_string(), |status| format!("{status:?}"));
    let timers = [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF];
    #[rustfmt::skip]
    let plain = [
        libc::PR_GET_DUMPABLE, libc::PR_GET_KEEPCAPS, libc::PR_GET_THP_DISABLE,
        libc::PR_GET_SECUREBITS,
    ];
    // SAFETY: ioprio_get(IOPRIO_WHO_PROCESS, self) reads a number.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, 1, 0) };
    vec![
        ("wait", waited),
        ("timers", timers.map(armed).join(" ")),
        ("pdeathsig", stored(libc::PR_GET_PDEATHSIG).to_string()),
        (
            "subreaper",
            stored(libc::PR_GET_CHILD_SUBREAPER).to_string(),
        ),
        (
            "prctl",
            plain.map(|option| returned(option).to_string()).join(" "),
        ),
        ("ioprio", priority.to_string()),
    ]
}

/// Restores the default action of `signal` and lets it through.
pub(crate) fn let_act(signal: Signal) {
    if !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
        let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: the default action runs no code of ours.
        let _ = unsafe { sigaction(signal, &action) };
    }
    let _ = SigSet::all().thread_unblock();
}

/// Whether a timer runs, and its interval. What is left of it is never the same twice.
fn armed(which: i32) -> String {
    // SAFETY: an all-zero itimerval is a valid one, and getitimer fills it.
    let timer = unsafe {
        let mut timer: libc::itimerval = std::mem::zeroed();
        libc::getitimer(which as _, &raw mut timer);
        timer
    };
    let running = timer.it_value.tv_sec > 0 || timer.it_value.tv_usec > 0;
    format!("{running}/{}", timer.it_interval.tv_sec)
}

/// A number that prctl(2) stores.
fn stored(option: i32) -> i32 {
    let mut value: libc::c_int = -1;
    // SAFETY: these options store one int.
    unsafe { libc::prctl(option, &raw mut value) };
    value
}

/// A number that prctl(2) returns.
fn returned(option: i32) -> i32 {
    // SAFETY: these options take no argument.
    unsafe { libc::prctl(option, 0, 0, 0, 0) }
}
