//! What is taken of a device at this moment, seen without taking anything: by confirmed
//! and by tentative claims. A choice counts both; a listing counts the confirmed.

use super::{Held, Level, OfdLock, Span};
use getgpu_linux::Range;
use getgpu_model::{Failure, Units};

/// More runs of bytes than this on one device are a flood: then all of it counts as
/// taken.
const MOST: usize = 4000;

/// What is taken of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// By leases and reservations.
    pub confirmed: Units,
    /// By those who are about to decide.
    pub tentative: Units,
}

impl Occupancy {
    /// Looks at both sides of a level; on the inner one also at leases of those who named
    /// the device.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn read(probe: &OfdLock, level: Level, span: Span) -> Result<Self, Failure> {
        let inner = [span.inner_lease(), span.inner_reservation(), span.lease()];
        match level {
            Level::Outer => Self::of(probe, &[span.lease(), span.reservation()]),
            Level::Inner { reserved: false } => Self::of(probe, &inner[..2]),
            Level::Inner { reserved: true } => Self::of(probe, &inner),
        }
    }

    /// The same of these regions; all of the device if there are too many claims to read.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn of(probe: &OfdLock, regions: &[Range]) -> Result<Self, Failure> {
        let mut taken = Self::default();
        for region in regions {
            let scan = probe.conflicts(*region, MOST)?;
            if scan.flood {
                return Ok(Self {
                    confirmed: Units::whole(),
                    tentative: Units::default(),
                });
            }
            for (held, units) in [
                (Held::Confirmed, &mut taken.confirmed),
                (Held::Tentative, &mut taken.tentative),
            ] {
                let ranges = scan
                    .found
                    .iter()
                    .filter(|c| c.held == held)
                    .map(|c| c.range);
                *units = units.union(&Units::of(ranges, *region));
            }
        }
        Ok(taken)
    }

    /// Everything that a choice must leave alone.
    pub fn all(&self) -> Units {
        self.confirmed.union(&self.tentative)
    }

    /// Whether some of `units` is taken, and how.
    pub fn held(&self, units: &Units) -> Option<Held> {
        let meets = |taken: &Units| units.difference(taken) != *units;
        if meets(&self.confirmed) {
            return Some(Held::Confirmed);
        }
        meets(&self.tentative).then_some(Held::Tentative)
    }
}

/// Whether any process claims some of these units in a region.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn any_held(probe: &OfdLock, units: &Units, region: Range) -> Result<bool, Failure> {
    for range in units.at(region) {
        if probe.conflict(range)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is seen of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A process claims some of it.
    Held(Held),
    /// No process does, and it is kept for a waiter.
    Kept,
}

/// Whether any process claims any of a device, or it is kept for one: of a free one, and
/// of most others, one question to the kernel, which walks past every lock on the file for
/// each.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn seen_or_kept(probe: &OfdLock, span: Span) -> Result<Option<Seen>, Failure> {
    let Some(first) = probe.conflict(span.lease_and_reservation())? else {
        return Ok(None);
    };
    let meets = |region: Range| region.intersection(first.range).is_some();
    if first.held == Held::Confirmed && (meets(span.lease()) || meets(span.reservation())) {
        return Ok(Some(Seen::Held(Held::Confirmed)));
    }
    let lease = probe.conflict(span.lease())?;
    let reservation = probe.conflict(span.reservation())?;
    let held = [lease, reservation].into_iter().flatten().map(|c| c.held);
    Ok(match held.max_by_key(|held| *held == Held::Confirmed) {
        Some(held) => Some(Seen::Held(held)),
        None => is_kept(probe, span)?.then_some(Seen::Kept),
    })
}

/// Whether a process has a part of a device by a confirmed claim.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn is_shared(probe: &OfdLock, span: Span) -> Result<bool, Failure> {
    for region in [span.lease(), span.reservation()] {
        let first = probe.conflict(region)?;
        if first.is_some_and(|c| c.held == Held::Confirmed && c.range.len() < region.len()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether any process claims any of a device.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn seen(probe: &OfdLock, span: Span) -> Result<Option<Held>, Failure> {
    Ok(match seen_or_kept(probe, span)? {
        Some(Seen::Held(held)) => Some(held),
        Some(Seen::Kept) | None => None,
    })
}

/// Whether a device is kept for a waiter, also while another process has it.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn is_kept(probe: &OfdLock, span: Span) -> Result<bool, Failure> {
    Ok(probe.conflict(span.kept())?.is_some())
}
