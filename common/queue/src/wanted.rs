//! How many calls wait that are no part of the program that asks: what `getgpu --wanted` tells a
//! program that could make room. A call that stands aside for a limit of its user is not counted.

use getgpu_linux::procfs::{ancestry, fdinfo};
use getgpu_lock::{LockFile, OfdLock, layout};
use getgpu_model::Failure;

use super::queued::waiting_processes;
use super::ticket::MOST;

/// How many calls wait, without those below the process `owner` (pid and start), which wait for
/// what that process has, or would be ended with it.
///
/// # Errors
///
/// The lock file cannot be asked.
pub fn waiting_beside(
    lock_file: &LockFile,
    probe: &OfdLock,
    owner: Option<(i32, u64)>,
) -> Result<usize, Failure> {
    let found = probe.tentative_locks(layout::all_tickets(), MOST)?.found;
    let mut tickets: Vec<_> = found.into_iter().map(|ticket| ticket.range).collect();
    let Some(owner) = owner.filter(|_| !tickets.is_empty()) else {
        return Ok(tickets.len());
    };
    for stat in waiting_processes(probe)? {
        let mut above = ancestry::ancestors(stat.pid, 64).into_iter();
        if !above.any(|process| (process.pid, process.start) == owner) {
            continue;
        }
        let locks = fdinfo::write_locks(&stat.pid.to_string());
        let own = fdinfo::within(&locks, lock_file.identity.1, layout::all_tickets());
        tickets.retain(|ticket| !own.contains(ticket));
    }
    Ok(tickets.len())
}
