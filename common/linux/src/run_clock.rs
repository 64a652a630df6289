//! A clock that stands still while this process is stopped: by SIGSTOP, in a frozen cgroup, by Slurm's
//! `scontrol suspend`. The kernel keeps no such clock, so this one counts the looks at it: between two
//! of them no more time passes than the pause that was made, or a moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::sys;

/// How long this process was stopped, in nanoseconds, as far as looks have shown. For all threads: a
/// library with thread-local variables cannot be loaded into a static program.
static STOPPED: AtomicU64 = AtomicU64::new(0);
/// The last look, in nanoseconds of CLOCK_MONOTONIC; 0: none.
static LOOKED: AtomicU64 = AtomicU64::new(0);
/// How many threads make a pause.
static PAUSING: AtomicU64 = AtomicU64::new(0);

/// The longest pause that is made at a time where a limit is waited for, and what a process may do
/// between two looks: what a stop costs of a limit.
pub const SLICE: Duration = Duration::from_millis(200);

/// The time of this clock.
pub fn now() -> Instant {
    // What another thread waits for may take longer.
    let is_alone = PAUSING.load(Relaxed) == 0;
    look(if is_alone { SLICE } else { Duration::MAX });
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
    now();
    PAUSING.fetch_add(1, Relaxed);
    let result = make();
    PAUSING.fetch_sub(1, Relaxed);
    look(time.saturating_add(SLICE));
    result
}

/// Notes that this process runs, and what it took longer than `allowed` since the last look.
fn look(allowed: Duration) {
    let now = sys::monotonic_time();
    let last = Duration::from_nanos(LOOKED.swap(nanoseconds(now), Relaxed));
    if !last.is_zero() {
        let stopped = now.saturating_sub(last).saturating_sub(allowed);
        STOPPED.fetch_add(nanoseconds(stopped), Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look that another test makes meanwhile shows that this process runs.
    #[test]
    fn a_pause_counts_for_what_it_was_asked_to_take() {
        let is_left_out = || {
            let (began, real) = (now(), Instant::now());
            let stopped = || std::thread::sleep(Duration::from_millis(600));
            pause(Duration::from_millis(20), stopped);
            since(began) + Duration::from_millis(200) <= real.elapsed()
        };
        assert!((0..100).any(|_| is_left_out()));
    }
}
