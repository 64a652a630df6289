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
    /// The lease of the outer level, for a call that chooses inside a reservation.
    OuterLease,
}

/// Something that locks, looks and rests.
pub(crate) trait Locks {
    /// What can go wrong.
    type Error;
    /// Tries to write-lock. `None` on success, else the conflicting lock.
    fn write(&mut self, region: Region) -> Result<Option<Held>, Self::Error>;
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

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
