//! From a request and a device to a claim on the lock: how much of it, among whom, and
//! whether its users allow another one. NVML is not asked here; a claim that is given
//! back keeps others away while it is.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::choice::rejection_report::{Offer, Rejected};
use crate::error::Failure;
use crate::inventory::Device;
use crate::lock::claim::{self, sign};
use crate::lock::{
    Attempt, Claim, ClaimSpec, Held, Level, LockFile, Occupancy, OfdLock, Side, Span, Units,
    holders, occupancy,
};
use crate::pool::Portion;
use crate::procfs::{self, namespaces};
use crate::request::Request;

/// How long a claim waits for that of another user, who may yet give way.
const PATIENCE: Duration = Duration::from_millis(100);

/// A device that is ours to confirm.
#[derive(Debug)]
pub struct Picked {
    pub device: Device,
    /// The claim on it; dropping it gives the device up.
    pub claim: Claim,
}

/// Claims what the request wants of `device`, or tells why not.
pub fn claim(
    lock_file: &LockFile,
    probe: &OfdLock,
    side: Side,
    request: &Request,
    device: &Device,
) -> Result<Offer<Claim>, Failure> {
    let span = Span::of(&device.uuid);
    let units = match units(probe, request, device)? {
        Offer::Available(units) => units,
        Offer::Rejected(why) => return Ok(Offer::Rejected(why)),
    };
    let aim = ClaimSpec {
        side,
        level: request.level(),
        units,
    };
    let claim = match claim::attempt(lock_file, &aim, span)? {
        Attempt::Got(claim) => claim,
        // Of a part, what was free a moment ago is not, and there may be room beside it.
        Attempt::Taken if aim.units.is_whole() => return Ok(Offer::Rejected(Rejected::Taken)),
        Attempt::Taken | Attempt::Tentative => return Ok(Offer::Rejected(Rejected::Tentative)),
    };
    if request.same_user
        && !claim.units().is_whole()
        && let Some(why) = other_users(lock_file, probe, &claim, side, request.user)?
    {
        return Ok(Offer::Rejected(why));
    }
    Ok(Offer::Available(claim))
}

/// Which units can be had now. Takes nothing.
pub fn units(probe: &OfdLock, request: &Request, device: &Device) -> Result<Offer<Units>, Failure> {
    let span = Span::of(&device.uuid);
    let level = request.level();
    let ours = request
        .cover
        .as_ref()
        .and_then(|cover| cover.units(&device.uuid))
        .cloned()
        .unwrap_or_else(Units::whole);
    let wanted = match request.filter.portion(&ours, device.memory) {
        Portion::All => None,
        Portion::Units(wanted) => Some(wanted),
        Portion::TooLarge => return Ok(Offer::Rejected(Rejected::NoRoom)),
    };
    if wanted.is_none() && level == Level::Outer {
        // The usual case, in two questions.
        return Ok(unless_held(occupancy::seen(probe, span)?, ours));
    }
    let taken = Occupancy::look(probe, level, span)?;
    let Some(wanted) = wanted else {
        return Ok(unless_held(taken.of(&ours), ours));
    };
    Ok(match ours.difference(&taken.all()).first(wanted) {
        Some(room) => Offer::Available(room),
        // There is room as soon as the tentative claims give way.
        None if ours.difference(&taken.confirmed).count() >= wanted => {
            Offer::Rejected(Rejected::Tentative)
        }
        None => Offer::Rejected(Rejected::NoRoom),
    })
}

fn unless_held(held: Option<Held>, units: Units) -> Offer<Units> {
    match held {
        None => Offer::Available(units),
        Some(Held::Confirmed) => Offer::Rejected(Rejected::Taken),
        Some(Held::Tentative) => Offer::Rejected(Rejected::Tentative),
    }
}

/// Where only one user's programs may share a device: our uid is written down first, then
/// others' are looked for, so that of two users who meet at least one sees the other. Who
/// has a share there already stays; else the higher uid gives way at once, and the lower
/// waits for that.
fn other_users(
    lock_file: &LockFile,
    probe: &OfdLock,
    claim: &Claim,
    side: Side,
    uid: u32,
) -> Result<Option<Rejected>, Failure> {
    let span = claim.span();
    let own = namespaces::host_uid(uid);
    sign(claim.description(), side, span, own, None);
    let confirmed = !Occupancy::look(probe, Level::Outer, span)?
        .confirmed
        .is_empty();
    if confirmed && !has_share(lock_file, probe, span, uid)? {
        // Whoever confirmed just now has not been written down yet, or it is another
        // user's.
        let nobody = users(probe, span, own)?.is_empty();
        return Ok(Some(if nobody {
            Rejected::Tentative
        } else {
            Rejected::OtherUser
        }));
    }
    let began = Instant::now();
    loop {
        let others = users(probe, span, own)?;
        let Some(lowest) = others.first() else {
            return Ok(None);
        };
        if (!confirmed && *lowest < own) || began.elapsed() >= PATIENCE {
            return Ok(Some(Rejected::Tentative));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a device is shared by others, and not by this user.
pub fn others_share(
    lock_file: &LockFile,
    probe: &OfdLock,
    span: Span,
    uid: u32,
) -> Result<bool, Failure> {
    Ok(!users(probe, span, namespaces::host_uid(uid))?.is_empty()
        && !has_share(lock_file, probe, span, uid)?)
}

/// The other users that say they hold or claim a device.
fn users(probe: &OfdLock, span: Span, own: u32) -> Result<BTreeSet<u32>, Failure> {
    let mut users = holders::uids(probe, span, Side::Lease)?;
    users.extend(holders::uids(probe, span, Side::Reservation)?);
    users.remove(&own);
    Ok(users)
}

/// Whether a process of this user shows a confirmed lock on the device.
fn has_share(lock_file: &LockFile, probe: &OfdLock, span: Span, uid: u32) -> Result<bool, Failure> {
    for side in [Side::Lease, Side::Reservation] {
        let own = holders::process_ids(probe, span, side)?
            .into_iter()
            .filter(|pid| procfs::euid(*pid) == Some(uid));
        if own
            .into_iter()
            .any(|pid| !holders::units_of(lock_file, pid, side, span).is_empty())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
