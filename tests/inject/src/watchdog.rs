//! An end for runs that have none: every followed process is killed once none of them takes a
//! step any more, or when they have taken far too many, and the run is told so. It has a thread of
//! its own, since the thread that follows sits in waitpid(2).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than any process that these tests start goes without a step, NVML's time limit included. How
/// long they take in all depends on the machine.
const LIMIT: Duration = Duration::from_secs(200);
/// More stops than any of these runs has, of which a system call has two.
const MOST_STEPS: usize = 20_000;

/// Kills what it was told of, unless it is dropped in time.
pub(crate) struct Watchdog {
    pids: Arc<Mutex<BTreeSet<Pid>>>,
    steps: Arc<AtomicUsize>,
    barked: Arc<AtomicBool>,
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    pub(crate) fn start() -> Self {
        let (alive, gone) = mpsc::channel();
        let pids = Arc::new(Mutex::new(BTreeSet::new()));
        let (steps, barked) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (theirs, taken, mark) = (Arc::clone(&pids), Arc::clone(&steps), Arc::clone(&barked));
        std::thread::spawn(move || {
            let mut before = 0;
            while gone.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                let now = taken.load(Ordering::Relaxed);
                if (before + 1..MOST_STEPS).contains(&now) {
                    before = now;
                    continue;
                }
                mark.store(true, Ordering::Relaxed);
                for pid in theirs.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                    let _ = kill(*pid, Signal::SIGKILL);
                }
            }
        });
        Self {
            pids,
            steps,
            barked,
            _alive: alive,
        }
    }

    fn followed(&self) -> MutexGuard<'_, BTreeSet<Pid>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At each of its stops.
    pub(crate) fn watch(&self, pid: Pid) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.followed().insert(pid);
    }

    /// Its number may be another's from now on.
    pub(crate) fn forget(&self, pid: Pid) {
        self.followed().remove(&pid);
    }

    pub(crate) fn barked(&self) -> bool {
        self.barked.load(Ordering::Relaxed)
    }
}
