//! The programs of the model: what getgpu and cudawrap do on the lock, with the decisions of
//! `protocol`, and which of them come from each other. What is around these decisions follows
//! `choose` (take/named.rs, choice/chooser.rs) and getgpu (obtain/answer.rs) step by step.

use super::super::{Held, Level, Side};
use super::replay::{At, Place, Replay, Stop, Units};
use super::{Region, acquire, behind, confirm, is_settled, join, named};

/// All of a device.
pub(super) const ALL: Units = 3;

/// What a process does in the model. One that is given all of a lease, or a reservation once more, is
/// that lease or reservation; two parts of one lease exclude each other, and not who runs on all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Has this from the start, and may end at any time; an inner one is inside what another has.
    Owner {
        side: Side,
        devices: &'static [u8],
        units: Units,
        inside: Option<u8>,
    },
    /// Chooses so many of these devices, in this order.
    Chosen {
        side: Side,
        order: &'static [u8],
        units: Units,
        count: usize,
    },
    /// Leases these devices, which its grant names.
    Named { order: &'static [u8], units: Units },
    /// The same in a container, past what that process of its user has reserved.
    Contained { units: Units, user: u8 },
    /// Leases these devices of a reservation, all that it has of each.
    AllOf { owner: u8, order: &'static [u8] },
    /// Runs on all of a lease.
    Joined { owner: u8 },
    /// Is given a reservation, or a lease, once more.
    Again { owner: u8 },
    /// Chooses so many devices of these, in this order, inside what an owner has.
    Inside {
        side: Side,
        owner: u8,
        order: &'static [u8],
        units: Units,
        count: usize,
    },
}

impl Kind {
    /// The process that it comes from.
    const fn owner(self) -> Option<u8> {
        match self {
            Self::Owner { inside, .. } => inside,
            Self::AllOf { owner, .. }
            | Self::Joined { owner }
            | Self::Again { owner }
            | Self::Inside { owner, .. }
            | Self::Contained { user: owner, .. } => Some(owner),
            Self::Chosen { .. } | Self::Named { .. } => None,
        }
    }

    /// What it holds in the first world.
    pub(super) fn has_at_first(self) -> Vec<At> {
        let Self::Owner {
            side,
            devices,
            units,
            inside,
        } = self
        else {
            return Vec::new();
        };
        let (outer, inner) = match side {
            Side::Lease => (Place::Lease, Place::InnerLease),
            Side::Reservation => (Place::Reservation, Place::InnerReservation),
        };
        let places = std::iter::once(outer).chain(inside.map(|_| inner));
        let on = |place| devices.iter().map(move |device| (*device, place, units));
        places.flat_map(on).collect()
    }

    /// Who runs on all of a lease, and who is given something once more, is who has that.
    fn who(kinds: &[Self], own: usize) -> usize {
        match kinds[own] {
            Self::Joined { owner } | Self::Again { owner } => Self::who(kinds, usize::from(owner)),
            _ => own,
        }
    }

    /// The devices that it tries, the units of each, and how many it has in the end.
    pub(super) fn wants(self, kinds: &[Self]) -> (&'static [u8], Units, usize) {
        match self {
            Self::Owner { devices, units, .. } => (devices, units, devices.len()),
            Self::Chosen {
                order,
                units,
                count,
                ..
            }
            | Self::Inside {
                order,
                units,
                count,
                ..
            } => (order, units, count),
            Self::Named { order, units } => (order, units, order.len()),
            Self::Contained { units, .. } => (&[0], units, 1),
            Self::AllOf { owner, order } => {
                let (_, units, _) = kinds[usize::from(owner)].wants(kinds);
                (order, units, order.len())
            }
            Self::Joined { owner } | Self::Again { owner } => {
                kinds[usize::from(owner)].wants(kinds)
            }
        }
    }

    /// Whether a process was given what it has by another one.
    pub(super) fn comes_from(kinds: &[Self], own: usize, other: usize) -> bool {
        own == other
            || kinds[own]
                .owner()
                .is_some_and(|owner| Self::comes_from(kinds, usize::from(owner), other))
    }

    /// Whether two processes may have the same units, since one of them was given them by the other.
    pub(super) fn come_from_each_other(kinds: &[Self], one: usize, other: usize) -> bool {
        let (one, other) = (Self::who(kinds, one), Self::who(kinds, other));
        Self::comes_from(kinds, one, other) || Self::comes_from(kinds, other, one)
    }
}

/// Runs a process: whether it has what it wants.
pub(super) fn run(replay: &mut Replay<'_>, kinds: &[Kind], kind: Kind) -> Result<bool, Stop> {
    let cover = |owner: u8| match kinds[usize::from(owner)] {
        Kind::Owner {
            side,
            devices,
            units,
            inside,
        } => (side, devices, units, inside.is_some()),
        _ => unreachable!("owners own"),
    };
    match kind {
        Kind::Owner { .. } => Ok(true),
        Kind::Chosen {
            side,
            order,
            units,
            count,
        } => {
            (replay.side, replay.level, replay.units) = (side, Level::Outer, units);
            chosen(replay, order, count, None)
        }
        Kind::Named { order, units } => {
            (replay.side, replay.level, replay.units) = (Side::Lease, Level::Outer, units);
            named_devices(replay, order, Region::Other, None)
        }
        Kind::Contained { units, user } => contained(replay, units, user),
        Kind::AllOf { owner, order } => {
            let (_, _, units, is_inner) = cover(owner);
            (replay.side, replay.level, replay.units) = (Side::Lease, Level::Outer, units);
            replay.own_inside = if is_inner { units } else { 0 };
            named_devices(replay, order, Region::Inside, Some(owner))
        }
        Kind::Joined { owner } => {
            let (_, devices, units, _) = cover(owner);
            (replay.side, replay.level, replay.units) = (Side::Lease, Level::Outer, units);
            joined_lease(replay, devices, owner)
        }
        Kind::Again { owner } => {
            let (_, devices, units, is_inner) = cover(owner);
            (replay.side, replay.units) = (Side::Reservation, units);
            let mut is_joined = true;
            for device in devices {
                (replay.device, replay.level) = (*device, Level::Outer);
                is_joined = is_joined && join(replay, Region::Own)?;
                if is_inner {
                    replay.level = Level::Inner { reserved: true };
                    is_joined = is_joined && join(replay, Region::Own)?;
                }
            }
            proven(replay, owner, is_joined)
        }
        Kind::Inside {
            side,
            owner,
            order,
            units,
            count,
        } => {
            let reserved = cover(owner).0 == Side::Reservation;
            (replay.side, replay.units) = (side, units);
            replay.level = Level::Inner { reserved };
            chosen(replay, order, count, Some(owner))
        }
    }
}

fn proven(replay: &mut Replay<'_>, owner: u8, is_held: bool) -> Result<bool, Stop> {
    if replay.proof(owner)? && is_held {
        return Ok(true);
    }
    replay.fail(true)
}

/// A choice as `Chooser::choose_least` makes it: each device in turn, those that others claimed only
/// tentatively again while patience lasts; several behind the gate.
fn chosen(
    replay: &mut Replay<'_>,
    order: &[u8],
    count: usize,
    owner: Option<u8>,
) -> Result<bool, Stop> {
    if count > 1 {
        replay.enter_gate()?;
    }
    let (mut left, mut picked) = (order.to_vec(), Vec::new());
    loop {
        let mut again = Vec::new();
        for device in left {
            if picked.len() == count {
                break;
            }
            replay.device = device;
            // The look before it, which takes no lock, may be of any time before: nothing follows
            // from it.
            let in_the_way = acquire(replay, replay.side, replay.level)?;
            if in_the_way.is_some() {
                replay.close(device)?;
            } else {
                picked.push(device);
            }
            if in_the_way == Some(Held::Tentative) {
                again.push(device);
            }
        }
        if picked.len() == count {
            break;
        }
        // Too few are left, or those that are tried may yet be had.
        let impatient = picked.len() + again.len() >= count;
        if !impatient || !replay.round()? {
            // One after the other, each by its own description.
            for device in &picked {
                replay.close(*device)?;
            }
            return replay.fail(impatient);
        }
        left = again;
    }
    confirm_all(replay, &picked, owner)
}

/// Leases devices that a grant names, with a look at `region` behind each claim; several behind the gate.
fn named_devices(
    replay: &mut Replay<'_>,
    order: &[u8],
    region: Region,
    owner: Option<u8>,
) -> Result<bool, Stop> {
    if order.len() > 1 {
        replay.enter_gate()?;
    }
    for device in order {
        replay.device = *device;
        let way = match named(replay)? {
            None => behind(replay, region)?,
            held => held,
        };
        if way.is_some() {
            return replay.fail(way == Some(Held::Tentative));
        }
    }
    confirm_all(replay, order, owner)
}

/// Runs on all devices of a lease: a look at each, then a lock beside each.
fn joined_lease(replay: &mut Replay<'_>, devices: &[u8], owner: u8) -> Result<bool, Stop> {
    if devices.len() > 1 {
        replay.enter_gate()?;
    }
    for device in devices {
        replay.device = *device;
        if let Some(held) = replay.look_at(Place::InnerLease)? {
            return replay.fail(held == Held::Tentative);
        }
    }
    if devices.len() > 1 {
        replay.leave_gate()?;
    }
    // What cannot be joined is not held, which the proof shows.
    let mut is_joined = true;
    for device in devices {
        replay.device = *device;
        is_joined = is_joined && join(replay, Region::Own)?;
    }
    proven(replay, owner, is_joined)
}

/// Confirms each claim, and then that what they are inside of has survived.
fn confirm_all(replay: &mut Replay<'_>, devices: &[u8], owner: Option<u8>) -> Result<bool, Stop> {
    if devices.len() > 1 {
        replay.leave_gate()?;
    }
    for device in devices {
        replay.device = *device;
        let lost = confirm(replay, replay.side, replay.level)?;
        if lost.is_some() {
            assert!(owner.is_some(), "a claim of one's own can be confirmed");
            return replay.fail(true);
        }
    }
    match owner {
        Some(owner) => proven(replay, owner, true),
        None => Ok(true),
    }
}

/// A device that a grant names to a container, which nothing proves.
fn contained(replay: &mut Replay<'_>, units: Units, user: u8) -> Result<bool, Stop> {
    (replay.side, replay.level, replay.units) = (Side::Lease, Level::Outer, units);
    if let Some(held) = named(replay)? {
        return replay.fail(held == Held::Tentative);
    }
    if behind(replay, Region::Other)?.is_some()
        && !(is_settled(replay, Region::Other)? && replay.signed(user)?)
    {
        return replay.fail(true);
    }
    confirm_all(replay, &[0], None)
}
