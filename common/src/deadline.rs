//! A time limit for a whole process: when the time has passed, the process prints one line
//! and exits, whatever it waits for. A kernel timer and its signal enforce the limit
//! (setitimer(2)), so no part of the program has to look at the clock.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::Duration;

struct End {
    line: Vec<u8>,
    status: i32,
}

static END: OnceLock<End> = OnceLock::new();

/// Ends this process with `status` after `limit`, with `line` on standard error. Once for a
/// process; children that are forked have no limit of their own.
pub fn end_after(limit: Duration, line: String, status: i32) {
    let line = format!("{line}\n").into_bytes();
    if END.set(End { line, status }).is_err() {
        return;
    }
    let limit = limit.max(Duration::from_micros(1));
    // SAFETY: the handler only reads what was set before it could run, and calls write(2)
    // and _exit(2), which are async-signal-safe (signal-safety(7)); the sets and timers are
    // initialised.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end as *const () as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGALRM);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        let mut timer: libc::itimerval = std::mem::zeroed();
        timer.it_value.tv_sec =
            libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX);
        timer.it_value.tv_usec = libc::suseconds_t::from(limit.subsec_micros());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

extern "C" fn end(_signal: libc::c_int) {
    if let Some(end) = END.get() {
        // SAFETY: the line lives as long as the process.
        unsafe {
            libc::write(
                libc::STDERR_FILENO,
                end.line.as_ptr().cast(),
                end.line.len(),
            );
            libc::_exit(end.status)
        }
    }
}
