//! What is taken of a device at this moment, seen without taking anything: by the settled
//! and by those who only try. Whoever chooses counts both; a listing counts the settled.

use super::{Conflict, Held, Level, OfdLock, Range, Span, Units};
use crate::error::Failure;

/// More runs of bytes than this on one device are a flood: then all of it counts as
/// taken.
const MOST: usize = 4000;

/// What is taken of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// By leases and reservations.
    pub settled: Units,
    /// By those who are about to decide.
    pub tried: Units,
}

impl Occupancy {
    /// Looks at both sides of a level; on the inner one also at leases of those who named
    /// the device.
    pub fn look(probe: &OfdLock, level: Level, span: Span) -> Result<Self, Failure> {
        let regions: &[Range] = match level {
            Level::Outer => &[span.lease(), span.reservation()],
            Level::Inner { reserved: false } => &[span.inner_lease(), span.inner_reservation()],
            Level::Inner { reserved: true } => {
                &[span.inner_lease(), span.inner_reservation(), span.lease()]
            }
        };
        let mut taken = Self::default();
        for region in regions {
            let scan = probe.conflicts(*region, MOST)?;
            if scan.flood {
                return Ok(Self {
                    settled: Units::whole(),
                    tried: Units::default(),
                });
            }
            let of = |held| {
                scan.found
                    .iter()
                    .filter(move |c: &&Conflict| c.held == held)
                    .map(|c| c.range)
            };
            taken.settled = taken.settled.and(&Units::of(of(Held::Settled), *region));
            taken.tried = taken.tried.and(&Units::of(of(Held::Try), *region));
        }
        Ok(taken)
    }

    /// Everything that whoever chooses must leave alone.
    pub fn all(&self) -> Units {
        self.settled.and(&self.tried)
    }

    /// Whether some of `units` is taken, and how.
    pub fn of(&self, units: &Units) -> Option<Held> {
        let meets = |taken: &Units| units.without(taken) != *units;
        if meets(&self.settled) {
            return Some(Held::Settled);
        }
        meets(&self.tried).then_some(Held::Try)
    }
}

/// What of one region others have or try; all of it if there are too many to read.
pub fn in_region(probe: &OfdLock, region: Range) -> Result<Units, Failure> {
    let scan = probe.conflicts(region, MOST)?;
    Ok(if scan.flood {
        Units::whole()
    } else {
        Units::of(scan.found.iter().map(|c| c.range), region)
    })
}

/// Whether anybody has or tries any of a device: of a free one, and of most others, one
/// question to the kernel, which walks past every lock on the file for each.
pub fn seen(probe: &OfdLock, span: Span) -> Result<Option<Held>, Failure> {
    let Some(first) = probe.conflict(span.lease_and_reservation())? else {
        return Ok(None);
    };
    let meets = |region: Range| region.intersection(first.range).is_some();
    if first.held == Held::Settled && (meets(span.lease()) || meets(span.reservation())) {
        return Ok(Some(Held::Settled));
    }
    let lease = probe.conflict(span.lease())?;
    let reservation = probe.conflict(span.reservation())?;
    let held = [lease, reservation].into_iter().flatten().map(|c| c.held);
    Ok(held.max_by_key(|held| *held == Held::Settled))
}
