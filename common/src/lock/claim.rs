//! Claims on a device: the try, the look at the other side, and the settling, as the protocol of the lock has them.
//! A write lock is a try, a read lock is settled; whoever reserves looks at leases and gives way to anything,
//! whoever leases looks at reservations and gives way to settled ones, so of two that meet exactly one wins.

use std::time::{Duration, Instant};

use super::{Description, Held, Place, Range, Span};
use crate::error::{Failure, Kind, reason};

/// How long a lease waits for a reservation that is only being tried.
const TRY_PATIENCE: Duration = Duration::from_millis(100);
/// Pause between two looks at a try. Tries last for some microseconds to some milliseconds.
const PAUSE: Duration = Duration::from_micros(500);

/// For whom a device is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A program that runs now.
    Lease,
    /// A program that has not started yet.
    Reservation,
}

impl Side {
    const fn own(self, span: Span) -> Range {
        match self {
            Self::Lease => span.lease(),
            Self::Reservation => span.reservation(),
        }
    }

    const fn other(self, span: Span) -> Range {
        match self {
            Self::Lease => span.reservation(),
            Self::Reservation => span.lease(),
        }
    }

    const fn identity(self, span: Span) -> (Range, Range) {
        match self {
            Self::Lease => (span.lease_uids(), span.lease_pids()),
            Self::Reservation => (span.reservation_uids(), span.reservation_pids()),
        }
    }
}

/// What became of an attempt to claim a device.
#[derive(Debug)]
pub enum Attempt {
    /// It is ours to ask NVML about, and then to settle or to drop.
    Got(Claim),
    /// Somebody has it.
    Taken,
    /// Somebody was just trying it too and may yet leave it.
    Tried,
}

/// A device that is being tried: write-locked on its side, nothing settled on the other.
#[derive(Debug)]
pub struct Claim {
    description: Description,
    span: Span,
    side: Side,
}

/// Whether anybody has or tries `span`, on either side; takes nothing, so that nobody sees a try.
pub fn seen_taken(probe: &Description, span: Span) -> Result<Option<Held>, Failure> {
    let lease = probe.conflict(span.lease()).map_err(|e| lock_error(&e))?;
    let reservation = probe.conflict(span.reservation()).map_err(|e| lock_error(&e))?;
    let held = [lease, reservation].into_iter().flatten().map(|c| c.held);
    Ok(held.max_by_key(|held| *held == Held::Settled))
}

/// Tries to claim the device of `span` among others that may be had instead.
pub fn attempt(place: &Place, side: Side, span: Span) -> Result<Attempt, Failure> {
    let description = place.open()?;
    if !description.try_write(side.own(span)).map_err(|e| lock_error(&e))? {
        let conflict = description.conflict(side.own(span)).map_err(|e| lock_error(&e))?;
        return Ok(match conflict.map(|c| c.held) {
            Some(Held::Settled) => Attempt::Taken,
            _ => Attempt::Tried,
        });
    }
    let began = Instant::now();
    loop {
        match description.conflict(side.other(span)).map_err(|e| lock_error(&e))?.map(|c| c.held) {
            None => return Ok(Attempt::Got(Claim { description, span, side })),
            Some(Held::Settled) => return Ok(Attempt::Taken),
            // The other one sees our try and gives way.
            Some(Held::Try) if side == Side::Lease && began.elapsed() < TRY_PATIENCE => std::thread::sleep(PAUSE),
            Some(Held::Try) => return Ok(Attempt::Tried),
        }
    }
}

/// Tries to write-lock the lease of one named device, again for at most 200 ms while only tries are in the way.
/// `Err(true)` inside `Ok`: somebody has it settled.
pub fn named_lease(place: &Place, span: Span) -> Result<Option<Claim>, Failure> {
    let description = place.open()?;
    let began = Instant::now();
    while !description.try_write(span.lease()).map_err(|e| lock_error(&e))? {
        let settled =
            description.conflict(span.lease()).map_err(|e| lock_error(&e))?.is_some_and(|c| c.held == Held::Settled);
        if settled || began.elapsed() >= 2 * TRY_PATIENCE {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(Some(Claim { description, span, side: Side::Lease }))
}

impl Claim {
    /// The device's span.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// Who has the other side, settled; waits for at most 200 ms while it is only tried.
    pub fn other_side(&self) -> Result<Option<Held>, Failure> {
        let began = Instant::now();
        loop {
            let held =
                self.description.conflict(self.side.other(self.span)).map_err(|e| lock_error(&e))?.map(|c| c.held);
            if held != Some(Held::Try) || began.elapsed() >= 2 * TRY_PATIENCE {
                return Ok(held);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Turns the try into a settled claim and gives its description: close it, and the claim is over.
    pub fn settle(self) -> Result<Description, Failure> {
        if !self.description.try_read(self.side.own(self.span)).map_err(|e| lock_error(&e))? {
            return Err(Failure::new(Kind::LockPlace, "the lock was lost while it was being settled"));
        }
        Ok(self.description)
    }
}

/// Read-locks the two bytes that say whose claim it is. They only say where to look, so not getting them is no failure.
pub fn sign(description: &Description, side: Side, span: Span, host_uid: u32, pid: Option<i32>) {
    let (uids, pids) = side.identity(span);
    let _ = description.try_read(Range { start: uids.start + i64::from(host_uid), len: 1 });
    if let Some(pid) = pid.filter(|pid| i64::from(*pid) < pids.len) {
        let _ = description.try_read(Range { start: pids.start + i64::from(pid), len: 1 });
    }
}

/// Joins a settled reservation of our own: both then hold it.
pub fn join_reservation(place: &Place, span: Span) -> Result<Option<Description>, Failure> {
    let description = place.open()?;
    let joined = description.try_read(span.reservation()).map_err(|e| lock_error(&e))?;
    Ok(joined.then_some(description))
}

/// A lock call that failed: whatever it was, nothing is handed out.
pub fn lock_error(error: &std::io::Error) -> Failure {
    Failure::new(Kind::LockPlace, format!("locking: {}", reason(error)))
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
