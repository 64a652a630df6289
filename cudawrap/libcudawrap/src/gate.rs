//! The work is done once in a process, however often and by however many threads the
//! driver asks; who comes while it is being done waits for it. A process that was forked
//! meanwhile has no thread that would end it, and does it itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::unistd::gettid;

/// Whether there is anything left to do when the driver asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    /// The program has what it gets.
    Final,
    /// It has nothing: a call that is repeated tries again.
    MayBeRepeated,
}

/// Between two looks of a thread that waits for another one.
const PAUSE: Duration = Duration::from_millis(1);

const IDLE: u64 = 0;
const DONE: u64 = 1;
/// Flag of a state that names the process and the thread that have begun.
const RUNNING: u64 = 1 << 63;

static STATE: AtomicU64 = AtomicU64::new(IDLE);

/// Does the `work`, unless it has been done.
pub fn once(work: impl FnOnce() -> GateOutcome) {
    let process = RUNNING | u64::from(std::process::id()) << 32;
    let ours = process | u64::from(gettid().as_raw().unsigned_abs());
    loop {
        let seen = STATE.load(Ordering::Acquire);
        if seen == DONE {
            return;
        }
        // A thread that finds itself has left its work by longjmp(3), and begins again.
        let of_another_thread = seen != ours && seen >> 32 == process >> 32;
        if of_another_thread {
            while STATE.load(Ordering::Acquire) == seen {
                std::thread::sleep(PAUSE);
            }
            return;
        }
        let begun = STATE.compare_exchange(seen, ours, Ordering::AcqRel, Ordering::Acquire);
        if begun.is_ok() {
            break;
        }
    }
    let state = match work() {
        GateOutcome::Final => DONE,
        GateOutcome::MayBeRepeated => IDLE,
    };
    STATE.store(state, Ordering::Release);
}
