//! Gives up the part that a prolog has reserved for a job. Its user decides what the process does that
//! holds it, and any user can start one that looks like it, so that a hook looks only at those of the
//! job's user, and loses at most a second to all of them together: slurmd drains a node whose prolog
//! takes too long.

use std::time::Duration;

use getgpu_linux::CommandLines;
use getgpu_linux::procfs::run_time::Stopwatch;
use getgpu_lock::ownership_proof::{self, HolderSearch};
use getgpu_lock::{HolderArgs, HolderProcess};
use getgpu_model::{Failure, quantity};

use super::{Context, DIAG};
use crate::causes::SlurmCause;
use getgpu_core::release;

/// What processes of users cost a hook at most; a prolog that reserves, 400 ms more
/// (`tag::OF_PART`). Time in which the hook waits for a processor does not count.
const PATIENCE: Duration = Duration::from_millis(600);

/// How often holders are looked for that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SearchEffort {
    /// As long as the hook has patience, since on a busy machine a holder may be read later.
    Patient,
    Once,
}

/// What a hook may still lose to processes of users.
pub fn patience() -> CommandLines {
    CommandLines::within(PATIENCE)
}

/// Gives up a job's part, if it has one. `uid`: the job's user; all users' where it is not known.
///
/// # Errors
///
/// There is no lock, a holder does not end, or some could not be read in time and none was the job's.
pub fn give_up(
    context: &Context,
    job: &str,
    uid: Option<u32>,
    search: SearchEffort,
) -> Result<(), Failure> {
    let lock_file = context.lock_file()?;
    let patience = &context.patience;
    let of_job = |args: &HolderArgs| args.job_of_part() == Some(job);
    let look = || ownership_proof::search(&lock_file, uid, patience, &of_job);
    let holders = searched(patience, search, look)?;
    let began = Stopwatch::start();
    let ended = release::end(&lock_file, &holders, patience.left(), &DIAG);
    patience.spend(began.elapsed());
    ended
}

/// What a search finds; a patient one is repeated until it has read all holders or found some.
fn searched(
    patience: &CommandLines,
    search: SearchEffort,
    look: impl Fn() -> HolderSearch,
) -> Result<Vec<HolderProcess>, Failure> {
    loop {
        let (began, left) = (Stopwatch::start(), patience.left());
        let found = look();
        if found.unread == 0 || !found.proven.is_empty() {
            return Ok(found.proven);
        }
        // Reads have been counted.
        let read = left.saturating_sub(patience.left());
        patience.spend(began.elapsed().saturating_sub(read));
        if search == SearchEffort::Once || patience.is_used_up() {
            let reservations = quantity::counted(found.unread, "reservation");
            return Err(SlurmCause::PartUnread { reservations }.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// On a busy machine the job's holder may be read at a later look only.
    #[test]
    fn holders_are_searched_for_until_each_was_read() {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            HolderSearch {
                unread: usize::from(looks.get() < 3),
                ..HolderSearch::default()
            }
        };
        let long = CommandLines::within(Duration::from_secs(600));
        assert_eq!(searched(&long, SearchEffort::Patient, look).unwrap(), []);
        assert_eq!(looks.get(), 3);
        let never = || {
            looks.set(looks.get() + 1);
            HolderSearch {
                unread: 2,
                ..HolderSearch::default()
            }
        };
        let words = "2 reservations could not be read in time, and one may be the job's";
        let over = CommandLines::within(Duration::ZERO);
        for (patience, search) in [(&long, SearchEffort::Once), (&over, SearchEffort::Patient)] {
            looks.set(0);
            let refusal = searched(patience, search, never).unwrap_err();
            assert_eq!((refusal.message.as_str(), looks.get()), (words, 1));
        }
    }
}
