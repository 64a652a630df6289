//! A time limit on a call that has none: a timer's signal interrupts it, again and again,
//! so that one that comes too early is not the last. Nothing of it is left when it is
//! dropped, and POSIX timers do not survive exec (timer_create(2)).
//!
//! F_OFD_SETLKW waits without a limit (fcntl(2)), and a waiter has to look whether the head
//! of the queue is stopped. Polling instead would let each of hundreds of waiters ask the
//! kernel, which walks all locks of the file for every answer.
#![allow(unsafe_code)]

use std::time::Duration;

/// The signal: one that nobody uses, since a caller's own alarm(2) must still end its
/// program.
fn signal() -> libc::c_int {
    libc::SIGRTMAX() - 1
}

extern "C" fn nothing(_: libc::c_int) {}

/// Interrupts blocking calls of this thread once in a while (EINTR).
#[derive(Debug)]
pub struct InterruptTimer {
    timer: Option<libc::timer_t>,
    action: libc::sigaction,
    mask: libc::sigset_t,
}

impl InterruptTimer {
    /// Ticks every `period`; none if there is no timer to be had (`ulimit -i 0`), or its
    /// signal is another's.
    pub fn start(period: Duration) -> Option<Self> {
        if is_pending() {
            // Somebody has sent it to the program that is to be, which must find it.
            return None;
        }
        // SAFETY: all structures are zeroed, which is a valid value for each, or filled
        // by the calls; the handler does nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal(), &raw const action, &raw mut before);
            let (mut ours, mut mask): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut ours);
            libc::sigaddset(&raw mut ours, signal());
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const ours, &raw mut mask);
            // Dropped, it puts back what was changed.
            let ticker = Self {
                timer: create(period),
                action: before,
                mask,
            };
            ticker.timer.is_some().then_some(ticker)
        }
    }
}

fn is_pending() -> bool {
    // SAFETY: the set is zeroed, which is a valid value, and filled by the call.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, signal()) == 1
    }
}

/// A timer that sends the signal to this thread every `period`; none if there is none to
/// be had.
fn create(period: Duration) -> Option<libc::timer_t> {
    let period = period.clamp(Duration::from_millis(1), Duration::from_secs(3600));
    let time = libc::timespec {
        tv_sec: period.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(period.subsec_nanos()),
    };
    let times = libc::itimerspec {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: the event is zeroed, which is a valid value, or filled here; the timer is
    // used only if the first call made it.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        // To this thread: the others of a test are not to be interrupted.
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        // By the system call: glibc has gettid(3) from 2.30 on only.
        event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as libc::pid_t;
        event.sigev_signo = signal();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
            return None;
        }
        libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut());
        Some(timer)
    }
}

impl Drop for InterruptTimer {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and deleted once; action and mask are what the calls
        // above gave.
        unsafe {
            if let Some(timer) = self.timer.take() {
                libc::timer_delete(timer);
            }
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            );
            libc::sigaction(signal(), &raw const self.action, std::ptr::null_mut());
        }
    }
}
