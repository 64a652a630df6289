//! A clock that stands still while this process is stopped: by SIGSTOP, in a frozen cgroup, by Slurm's
//! `scontrol suspend`. The kernel keeps no such clock, so each pause that this process makes is
//! compared with the time that it asked for: what it took beyond that, it did not run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::sys;

/// How long this process was stopped, in nanoseconds, as far as its pauses have shown. Not of each
/// thread: a library with thread-local variables cannot be loaded into a static program.
static STOPPED: AtomicU64 = AtomicU64::new(0);
/// Until when that was counted, since another thread's pause shows the same stop.
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// The longest pause that is made at a time where a limit is waited for: what a stop costs of it.
pub const SLICE: Duration = Duration::from_millis(200);

/// A pause may take so much longer on a machine that has other things to do.
const SLACK: Duration = Duration::from_millis(50);

/// The time of this clock.
pub fn now() -> Instant {
    let now = Instant::now();
    let stopped = Duration::from_nanos(STOPPED.load(Relaxed));
    now.checked_sub(stopped).unwrap_or(now)
}

/// How long this process has run since then, pauses that it made itself included.
pub fn since(began: Instant) -> Duration {
    now().saturating_duration_since(began)
}

/// Sleeps for so long.
pub fn sleep(time: Duration) {
    pause(time, || std::thread::sleep(time));
}

/// Makes a pause that should take `time` at most.
pub fn pause<T>(time: Duration, make: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = make();
    let beyond = began.elapsed().saturating_sub(time);
    if beyond > SLACK {
        let now = nanoseconds(sys::boot_time());
        let since = COUNTED.fetch_max(now, Relaxed);
        let counted = nanoseconds(beyond).min(now.saturating_sub(since));
        STOPPED.fetch_add(counted, Relaxed);
    }
    result
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_for_what_it_was_asked_to_take() {
        let asked = Duration::from_millis(20);
        let is_left_out = || {
            let (began, real) = (now(), Instant::now());
            pause(asked, || std::thread::sleep(Duration::from_millis(300)));
            since(began) + Duration::from_millis(200) <= real.elapsed()
        };
        // Another test's pause may have been counted up to the same moment.
        assert!((0..10).any(|_| is_left_out()));
    }
}
