//! Waiting for something to become true, looked at again and again until a deadline. The
//! pauses are only there to leave the processor to others; no test relies on their
//! length.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Long enough for anything that does happen, on a machine under load, and less than the
/// minute for which a reservation without a program is kept by default.
pub const LONG: Duration = Duration::from_secs(50);

/// Waits until `done`; panics with `what` when `limit` has passed.
#[track_caller]
pub fn until_within(limit: Duration, what: &str, done: impl FnMut() -> bool) {
    assert!(
        holds_within(limit, done),
        "waited {limit:?} in vain until {what}"
    );
}

/// Waits [`LONG`] at most.
#[track_caller]
pub fn until(what: &str, done: impl FnMut() -> bool) {
    until_within(LONG, what, done);
}

/// Whether `done` becomes true within `limit`.
pub fn holds_within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !done() {
        if Instant::now() >= deadline {
            return done();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Panics with `what` if `holds` fails at any look during `time`.
#[track_caller]
pub fn throughout(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while began.elapsed() < time {
        assert!(holds(), "not true after {:?}: {what}", began.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// For tests that fill the machine or whose figures need it: of those in one binary that call
/// it, one at a time goes on, until it drops what it is given.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
