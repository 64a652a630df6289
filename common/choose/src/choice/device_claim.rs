//! From a request and a device to a claim on the lock: how much of it, and among whom. NVML is
//! not asked here; a claim that is given back keeps others away while it is.

use std::time::{Duration, Instant};

use crate::choice::offer::{Offer, Rejected};
use crate::pool::Portion;
use crate::request::Owned;
use getgpu_linux::run_clock;
use getgpu_lock::{
    Claim, ClaimSpec, Held, Level, LockFile, Occupancy, OfdLock, Seen, Side, Span, claim, occupancy,
};
use getgpu_model::{Device, Failure, Units};

/// Claims what the request wants of `device`, or tells why not.
///
/// # Errors
///
/// The lock file cannot be read or locked.
pub fn claim(
    lock_file: &LockFile,
    probe: &OfdLock,
    side: Side,
    request: &Owned,
    device: &Device,
) -> Result<Offer<Claim>, Failure> {
    let span = Span::of(&device.uuid);
    let units = match units(probe, request, device)? {
        Ok(units) => units,
        Err(why) => return Ok(Err(why)),
    };
    let spec = ClaimSpec {
        side,
        level: request.level(),
        units,
    };
    // Another call came between the look and the claim: it may leave the device yet, and beside a
    // part there may be room. Counted as tentative, the device is tried again.
    let claim = claim::try_claim(lock_file, &spec, span)?;
    Ok(claim.ok_or(Rejected::Tentative))
}

/// How long a call looks again while only tentative claims of others are in the way.
pub(crate) struct Retry {
    began: Instant,
    limit: Duration,
    between: Duration,
}

impl Retry {
    /// Allows looks until `limit` has passed, with a pause `between` two of them.
    pub(crate) fn new(limit: Duration, between: Duration) -> Self {
        let began = run_clock::now();
        Self {
            began,
            limit,
            between,
        }
    }

    /// Sleeps until the next look is due and returns true; returns false once the limit has passed.
    pub(crate) fn pause(&self) -> bool {
        let is_left = run_clock::since(self.began) < self.limit;
        if is_left {
            run_clock::sleep(self.between);
        }
        is_left
    }
}

/// Which units can be had now. Takes nothing.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn units(probe: &OfdLock, request: &Owned, device: &Device) -> Result<Offer<Units>, Failure> {
    let span = Span::of(&device.uuid);
    let level = request.level();
    let (own, portion) = request.portion(device);
    let wanted = match portion {
        Portion::All => None,
        Portion::Units(wanted) => Some(wanted),
        Portion::TooLarge => return Ok(Err(Rejected::NoRoom)),
    };
    if wanted.is_none() && level == Level::Outer {
        // The usual case, in two questions.
        return Ok(match occupancy::seen_or_kept(probe, span)? {
            Some(Seen::Kept) if request.leaves_kept() => Err(Rejected::Kept),
            Some(Seen::Held(held)) => unless_held(Some(held), own),
            Some(Seen::Kept) | None => Ok(own),
        });
    }
    let taken = Occupancy::read(probe, level, span)?;
    let Some(wanted) = wanted else {
        return Ok(unless_held(taken.held(&own), own));
    };
    if own.difference(&taken.confirmed).count() < wanted {
        return Ok(Err(Rejected::NoRoom));
    }
    // Asked only where there is room: of a device that is in use, people are told who uses it.
    let is_left = level == Level::Outer && request.leaves_kept();
    if is_left && occupancy::is_kept(probe, span)? {
        return Ok(Err(Rejected::Kept));
    }
    // There is room as soon as the tentative claims give way.
    let room = own.difference(&taken.all()).first(wanted);
    Ok(room.ok_or(Rejected::Tentative))
}

/// Whether the request had room on the device if no process held the units `leaving`.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn fits_without(
    probe: &OfdLock,
    request: &Owned,
    device: &Device,
    leaving: &Units,
) -> Result<bool, Failure> {
    if leaving.is_empty() {
        return Ok(false);
    }
    let (own, portion) = request.portion(device);
    let wanted = match portion {
        Portion::All => own.count(),
        Portion::Units(wanted) => wanted,
        Portion::TooLarge => return Ok(false),
    };
    let taken = Occupancy::read(probe, request.level(), Span::of(&device.uuid))?.all();
    let free = own.difference(&taken.difference(leaving));
    Ok(free.count() >= wanted)
}

fn unless_held(held: Option<Held>, units: Units) -> Offer<Units> {
    match held {
        None => Ok(units),
        Some(Held::Confirmed) => Err(Rejected::Taken),
        Some(Held::Tentative) => Err(Rejected::Tentative),
    }
}
