//! The protocol of a claim, as decisions alone: what is locked and looked at, in which
//! order, and who gives way to whom. `claim` runs it over the kernel's locks, the model
//! check over simulated ones, so that what was proven is what runs.

use super::{Held, Level, Side};

/// Where a step of the protocol looks or locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Region {
    /// The side that is claimed.
    Own,
    /// The side that excludes it.
    Other,
    /// The lease of the outer level: that of a program around the call, or one that a call
    /// inside a reservation takes besides its own side.
    OuterLease,
    /// The reservation of the outer level, which an inner one holds too.
    OuterReservation,
    /// What is reserved inside the claimed units.
    Inside,
}

/// Something that locks, looks and rests.
pub(crate) trait Locks {
    /// What can go wrong.
    type Error;
    /// Tries to write-lock. `None` on success, else the conflicting lock.
    fn write(&mut self, region: Region) -> Result<Option<Held>, Self::Error>;
    /// Tries to read-lock. True on success.
    fn read(&mut self, region: Region) -> Result<bool, Self::Error>;
    /// Whether others hold something tentative there, whatever is confirmed.
    fn is_tried(&mut self, region: Region) -> Result<bool, Self::Error>;
    /// What others hold there.
    fn conflict(&mut self, region: Region) -> Result<Option<Held>, Self::Error>;
    /// Lets some time pass; false when the time has run out.
    fn rest(&mut self) -> Result<bool, Self::Error>;
}

/// Claims one device among several. A call that reserves gives way to anything on the
/// other side. One that leases gives way to what is confirmed there, and waits for what
/// is tentative, since a tentative reservation sees the lease and gives way. None: it may be
/// confirmed; else what another call has there.
pub(crate) fn acquire<L: Locks>(
    locks: &mut L,
    side: Side,
    level: Level,
) -> Result<Option<Held>, L::Error> {
    if let Some(held) = locks.write(Region::Own)? {
        return Ok(Some(held));
    }
    while let Some(held) = locks.conflict(Region::Other)? {
        if held == Held::Confirmed || side == Side::Reservation || !locks.rest()? {
            return Ok(Some(held));
        }
    }
    let outer = match (level, side) {
        (Level::Inner { reserved: true }, Side::Lease) => locks.write(Region::OuterLease)?,
        (Level::Inner { reserved: true }, Side::Reservation) => {
            locks.conflict(Region::OuterLease)?
        }
        _ => None,
    };
    Ok(outer)
}

/// Leases a device that was named: reservations are not looked at, and a tentative claim
/// in the way is waited for.
pub(crate) fn named<L: Locks>(locks: &mut L) -> Result<Option<Held>, L::Error> {
    while let Some(held) = locks.write(Region::Own)? {
        if held == Held::Confirmed || !locks.rest()? {
            return Ok(Some(held));
        }
    }
    Ok(None)
}

/// What others hold behind a named claim, in `Other` or `Inside`: what is tentative there is
/// waited for. A call that gives up counts it as in the way, since it may be past its own look.
pub(crate) fn behind<L: Locks>(locks: &mut L, region: Region) -> Result<Option<Held>, L::Error> {
    loop {
        let held = locks.conflict(region)?;
        if held != Some(Held::Tentative) || !locks.rest()? {
            return Ok(held);
        }
    }
}

/// Waits until all that others hold there is confirmed, for who may pass by what is confirmed;
/// false if that takes too long.
pub(crate) fn is_settled<L: Locks>(locks: &mut L, region: Region) -> Result<bool, L::Error> {
    while locks.is_tried(region)? {
        if !locks.rest()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Why a claim could not be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unheld {
    /// It was lost.
    Claim,
    /// Others are trying what lies around it.
    Around,
}

/// Confirms a claim. What encloses an inner one may end before it, so its units are locked
/// on the outer level too.
///
/// A reservation inside a lease has to wait there: any call that tries to reserve the device
/// write-locks the outer reservation for a moment, before it sees the lease. Without that
/// lock nothing would keep the device once the lease has ended.
pub(crate) fn confirm<L: Locks>(
    locks: &mut L,
    side: Side,
    level: Level,
) -> Result<Option<Unheld>, L::Error> {
    if !locks.read(Region::Own)? {
        return Ok(Some(Unheld::Claim));
    }
    let around = match (level, side) {
        (Level::Outer, _) => return Ok(None),
        (Level::Inner { .. }, Side::Lease) => Region::OuterLease,
        (Level::Inner { .. }, Side::Reservation) => Region::OuterReservation,
    };
    Ok((!join(locks, around)?).then_some(Unheld::Around))
}

/// Read-locks what the caller owns already by the lock of another process, past claims that
/// are only tried. Afterwards it is to be proven that the other process has it still: if it
/// has ended, a third one may have read-locked the same. False: others are trying it.
pub(crate) fn join<L: Locks>(locks: &mut L, region: Region) -> Result<bool, L::Error> {
    while !locks.read(region)? {
        if !locks.rest()? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
#[path = "protocol_model_tests.rs"]
mod model;
#[cfg(test)]
#[path = "protocol_programs_tests.rs"]
mod programs;
#[cfg(test)]
#[path = "protocol_replay_tests.rs"]
mod replay;
#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
