//! An end for runs that have none: after a limit every followed process is killed, and
//! the run is told so. It has a thread of its own, since the thread that follows sits in
//! waitpid(2).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything that these tests start takes, NVML's time limit included.
const LIMIT: Duration = Duration::from_secs(200);

/// Kills what it was told of, unless it is dropped in time.
pub(crate) struct Watchdog {
    pids: Arc<Mutex<BTreeSet<Pid>>>,
    barked: Arc<AtomicBool>,
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    pub(crate) fn start() -> Self {
        let (alive, gone) = mpsc::channel();
        let (pids, barked) = (
            Arc::new(Mutex::new(BTreeSet::new())),
            Arc::new(AtomicBool::new(false)),
        );
        let (theirs, mark) = (Arc::clone(&pids), Arc::clone(&barked));
        std::thread::spawn(move || {
            while gone.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                mark.store(true, Ordering::Relaxed);
                for pid in theirs.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                    let _ = kill(*pid, Signal::SIGKILL);
                }
            }
        });
        Self {
            pids,
            barked,
            _alive: alive,
        }
    }

    fn followed(&self) -> MutexGuard<'_, BTreeSet<Pid>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self, pid: Pid) {
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
