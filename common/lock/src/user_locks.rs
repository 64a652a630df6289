//! Bytes that the calls of one user take turns at: one for each of the user's tags, one
//! for counting what the user holds. Any user can lock such a byte, so a call waits
//! longer than a second only for a process of the same user that is seen to hold it.

use std::time::{Duration, Instant};

use super::{LockFile, OfdLock};
use getgpu_linux::{
    Range,
    procfs::{self, fdinfo},
    run_clock,
};
use getgpu_model::Failure;

/// How long a call waits for the byte; honest calls usually hold it for milliseconds.
const GRACE: Duration = Duration::from_secs(1);
/// How long it waits for a call of the same user, which may be asking NVML.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(2);
/// Between two searches for the process that holds the byte.
const SEARCH: Duration = Duration::from_millis(250);
/// How long all searches must find no process of the user before the byte counts as held by
/// another user: one scan of /proc can miss a call that has just taken the byte.
const STRANGER: Duration = Duration::from_secs(5);

/// What came of waiting for one's turn.
#[derive(Debug)]
pub enum Entered {
    /// The byte is locked until this is dropped.
    Ours(OfdLock),
    /// No process of the user is seen to hold the byte: another user keeps it.
    Strangers,
    /// Another call of the user has not ended in a minute.
    Late,
}

/// Waits until no other call of the users `uids` holds `byte`, and locks it.
///
/// # Errors
///
/// The lock file cannot be opened or locked.
pub fn enter(lock_file: &LockFile, byte: Range, uids: &[u32]) -> Result<Entered, Failure> {
    let guard = lock_file.open()?;
    let (began, mut searched) = (run_clock::now(), run_clock::now());
    let (mut searches, mut is_strangers) = (Searches::since(began), false);
    while !guard.try_write(byte)? {
        if is_strangers {
            return Ok(Entered::Strangers);
        }
        if run_clock::since(began) >= PATIENCE {
            return Ok(Entered::Late);
        }
        if run_clock::since(began) >= GRACE && run_clock::since(searched) >= SEARCH {
            let is_found = held_by_one_of(lock_file, byte, uids);
            searched = run_clock::now();
            is_strangers = searches.have_shown_a_stranger(is_found, searched);
        }
        run_clock::sleep(PAUSE);
    }
    Ok(Entered::Ours(guard))
}

/// What the searches for the process that holds a byte have found.
struct Searches {
    last_found: Instant,
}

impl Searches {
    /// Nothing yet; the time counts from now on.
    const fn since(now: Instant) -> Self {
        Self { last_found: now }
    }

    /// Notes what a search has found at this time. Whether the byte counts as another user's.
    fn have_shown_a_stranger(&mut self, is_found: bool, now: Instant) -> bool {
        if is_found {
            self.last_found = now;
        }
        now.saturating_duration_since(self.last_found) >= STRANGER
    }
}

/// Whether a process of these users shows the lock on `byte`.
fn held_by_one_of(lock_file: &LockFile, byte: Range, uids: &[u32]) -> bool {
    let own = std::process::id() as i32;
    procfs::pids().into_iter().any(|pid| {
        pid != own
            && uids.iter().any(|uid| procfs::may_be_of(pid, *uid))
            && procfs::euid(pid).is_some_and(|uid| uids.contains(&uid))
            && procfs::comm(pid).is_some_and(|comm| procfs::is_getgpu_or_cudawrap(pid, &comm))
            && !lock_file
                .shown(&fdinfo::write_locks(&pid.to_string()), byte)
                .is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that asks NVML for half a minute holds the byte all the time, and one search of
    /// many may miss it.
    #[test]
    fn a_byte_is_a_strangers_when_no_search_in_a_row_has_found_its_process() {
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let mut searches = Searches::since(began);
        for second in (1..30).map(|number| second * number) {
            let is_found = second.as_secs() % 3 == 0;
            assert!(!searches.have_shown_a_stranger(is_found, began + second));
        }
        assert!(!searches.have_shown_a_stranger(true, began + second * 30));
        assert!(!searches.have_shown_a_stranger(false, began + second * 34));
        assert!(searches.have_shown_a_stranger(false, began + second * 35));
    }
}
