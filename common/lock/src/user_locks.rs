//! Bytes that the calls of one user take turns at: one for each of the user's tags, one
//! for counting what the user holds. Any user can lock such a byte, so a call waits
//! longer than a second only for a process of the same user that is seen to hold it.

use std::time::{Duration, Instant};

use super::{LockFile, OfdLock};
use getgpu_linux::{
    Range,
    procfs::{self, fdinfo},
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
    let (began, mut searched) = (Instant::now(), Instant::now());
    let (mut last_found, mut is_strangers) = (began, false);
    while !guard.try_write(byte)? {
        if is_strangers {
            return Ok(Entered::Strangers);
        }
        if began.elapsed() >= PATIENCE {
            return Ok(Entered::Late);
        }
        if began.elapsed() >= GRACE && searched.elapsed() >= SEARCH {
            if held_by_one_of(lock_file, byte, uids) {
                last_found = Instant::now();
            }
            is_strangers = last_found.elapsed() >= STRANGER;
            searched = Instant::now();
        }
        std::thread::sleep(PAUSE);
    }
    Ok(Entered::Ours(guard))
}

/// Whether a process of these users shows the lock on `byte`.
fn held_by_one_of(lock_file: &LockFile, byte: Range, uids: &[u32]) -> bool {
    let own = std::process::id() as i32;
    procfs::pids().into_iter().any(|pid| {
        pid != own
            && uids.iter().any(|uid| procfs::may_be_of(pid, *uid))
            && procfs::euid(pid).is_some_and(|uid| uids.contains(&uid))
            && procfs::comm(pid).is_some_and(|comm| procfs::is_getgpu_or_cudawrap(pid, &comm))
            && !fdinfo::within(
                &fdinfo::write_locks(&pid.to_string()),
                lock_file.identity.1,
                byte,
            )
            .is_empty()
    })
}
