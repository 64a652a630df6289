//! A time limit for a whole process: when the time has passed, the process prints one line
//! and exits, whatever it waits for. A kernel timer and its signal enforce the limit
//! (setitimer(2)), so no part of the program has to look at the clock.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};

use crate::poll;

struct End {
    line: Vec<u8>,
    status: i32,
}

static END: OnceLock<End> = OnceLock::new();

/// Where [`CANCEL`] is written first; negative: nowhere.
static LISTENER: AtomicI32 = AtomicI32::new(-1);

/// What a process that was started on the way is told by the end.
pub const CANCEL: u8 = b'c';

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

/// At the end a process that listens at the other end of `channel` is told [`CANCEL`]: it
/// keeps something for an answer that nobody gets. Until [`lift`]; the channel must stay
/// open until then.
pub fn tell(channel: &impl AsFd) {
    LISTENER.store(channel.as_fd().as_raw_fd(), Ordering::SeqCst);
}

/// Nothing is ended any more once `output` takes what is to be written, so that an answer
/// is either given or taken back. Until it does the limit is in force.
pub fn lift(output: BorrowedFd<'_>) {
    if END.get().is_none() {
        return;
    }
    let _ = poll::until(&mut [PollFd::new(output, PollFlags::POLLOUT)], None);
    let mut set = SigSet::empty();
    set.add(Signal::SIGALRM);
    let _ = set.thread_block();
    LISTENER.store(-1, Ordering::SeqCst);
}

extern "C" fn end(_signal: libc::c_int) {
    if let Some(end) = END.get() {
        // SAFETY: the line lives as long as the process. The listener's channel is a
        // socket that is open; a listener that is gone must not end this process
        // (MSG_NOSIGNAL).
        unsafe {
            let (listener, word) = (LISTENER.load(Ordering::SeqCst), [CANCEL]);
            if listener >= 0 {
                libc::send(listener, word.as_ptr().cast(), 1, libc::MSG_NOSIGNAL);
            }
            libc::write(
                libc::STDERR_FILENO,
                end.line.as_ptr().cast(),
                end.line.len(),
            );
            libc::_exit(end.status)
        }
    }
}
