//! Leasing the devices that CUDA_VISIBLE_DEVICES names: nothing is chosen and NVML is not asked.
//! What is ours of them already is leased as far as it is ours; a lease of somebody else's is in the way, and may be waited for.

use std::time::{Duration, Instant};

use getgpu_common::choice::attempt;
use getgpu_common::choice::census::Rejected;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::line::{Rooms, Seeker, Tried};
use getgpu_common::lock::claim::named_lease;
use getgpu_common::lock::holders::{self, Holder};
use getgpu_common::lock::{Claim, Description, Held, Place, Side, Span, Taken, UNITS, Units, taken};
use getgpu_common::quantity;
use getgpu_common::request::Request;

use crate::lease::Lease;

/// How long a part of a device is tried again while others take theirs.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_micros(200);

/// What became of named devices.
pub enum Named {
    /// Leased.
    Leased(Lease),
    /// Somebody else has this one: who, if that can be told.
    Taken(Uuid, Option<Holder>),
}

/// A device of which nothing is known but its name.
pub fn by_name(uuid: Uuid) -> Device {
    let slot = uuid.is_mig().then_some(0);
    Device { uuid, gpu: 0, slot, gpu_uuid: None, instance: None, profile: None, memory: None, usable: true, cpus: None }
}

/// Leases named devices. Reservations on them are asked about only with `mind_reservation`, and own ones are no hindrance.
pub fn lease(
    place: &Place,
    request: &mut Request,
    devices: &[Device],
    mind_reservation: bool,
) -> Result<Named, Failure> {
    let probe = place.open()?;
    request.filter.grant = Some(devices.iter().map(|device| device.uuid.clone()).collect());
    let mut held = false;
    for device in devices {
        held |= taken::seen(&probe, Span::of(&device.uuid))?.is_some();
    }
    // Where nothing is held at all nothing can be ours, and /proc need not be searched.
    request.cover = None;
    if held {
        request.find_cover(place, None);
    }
    let (mut claims, mut inherited) = (Vec::new(), Vec::new());
    for device in devices {
        let ours = request.cover.as_ref().and_then(|cover| cover.units(&device.uuid));
        let part = ours.and_then(|ours| request.filter.part_of(ours, device.memory));
        let reserved = request.cover.as_ref().is_some_and(|cover| cover.reserved);
        let claim = match ours {
            // A share of what is ours is one among several of ours.
            Some(_) if part.is_some() => part_of_ours(place, &probe, request, device)?,
            Some(ours) if !reserved => {
                inherited.push((Span::of(&device.uuid), ours.clone()));
                continue;
            }
            Some(ours) => named_lease(place, Span::of(&device.uuid), ours.clone())?,
            None => unowned(place, &probe, request, device)?,
        };
        let Some(claim) = claim else {
            return Ok(Named::Taken(device.uuid.clone(), first_holder(place, &probe, device, "lease")));
        };
        if mind_reservation && ours.is_none() && claim.other_side()? == Some(Held::Settled) {
            return Ok(Named::Taken(device.uuid.clone(), first_holder(place, &probe, device, "reservation")));
        }
        claims.push(claim);
    }
    // Its number is for the lease, which is to lie as low as it can.
    drop(probe);
    let lease = Lease::settle(claims, &inherited, place)?;
    request.still_ours(place)?;
    Ok(Named::Leased(lease))
}

/// A part of what is ours, among others of ours that take theirs in the same moment.
fn part_of_ours(
    place: &Place,
    probe: &Description,
    request: &Request,
    device: &Device,
) -> Result<Option<Claim>, Failure> {
    let began = Instant::now();
    loop {
        match attempt::claim(place, probe, Side::Lease, request, device)? {
            Err(Rejected::Tried) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            other => return Ok(other.ok()),
        }
    }
}

/// A device, or a share of one, that is not ours yet: what the leases of others leave of it, best where nobody has a reservation.
fn unowned(place: &Place, probe: &Description, request: &Request, device: &Device) -> Result<Option<Claim>, Failure> {
    let span = Span::of(&device.uuid);
    let Some(wanted) = request.filter.part_of(&Units::whole(), device.memory) else {
        return named_lease(place, span, Units::whole());
    };
    let began = Instant::now();
    loop {
        let free = Units::whole().without(&taken::in_region(probe, span.lease())?);
        let everything = Taken::look(probe, getgpu_common::lock::Level::Outer, span)?.all();
        let Some(units) = free.without(&everything).first(wanted).or_else(|| free.first(wanted)) else {
            return Ok(None);
        };
        if let Some(claim) = named_lease(place, span, units)? {
            return Ok(Some(claim));
        }
        if began.elapsed() >= PATIENCE {
            return Ok(None);
        }
    }
}

fn first_holder(place: &Place, probe: &Description, device: &Device, kind: &str) -> Option<Holder> {
    let held = holders::of(place, probe, Span::of(&device.uuid)).ok()?;
    held.holders.into_iter().find(|holder| holder.kind == kind)
}

/// `MIG-12..: in use by ben (pid 4711, python3)`
pub fn in_use(uuid: &Uuid, holder: Option<&Holder>) -> String {
    let Some(holder) = holder else { return format!("{uuid}: in use by another program") };
    let user = holder.user.as_deref().unwrap_or("another user");
    match (holder.pid, &holder.program) {
        (Some(pid), Some(program)) => format!("{uuid}: in use by {user} (pid {pid}, {program})"),
        _ => format!("{uuid}: in use by {user}"),
    }
}

/// The failure of a named device that somebody else has.
pub fn taken(uuid: &Uuid, holder: Option<&Holder>) -> Failure {
    Failure::new(Kind::NoneFree, in_use(uuid, holder)).hint("unset CUDA_VISIBLE_DEVICES to get a free device")
}

/// Somebody who waits for the devices that the grant names.
pub struct Wanted<'a> {
    /// The lock.
    pub place: &'a Place,
    /// The request.
    pub request: Request,
    /// The devices.
    pub devices: Vec<Device>,
}

impl Wanted<'_> {
    /// Whether a device cannot be had now, as far as the lock tells; of what was ours at the last attempt only that counts.
    fn taken(&self, probe: &Description, device: &Device) -> Result<bool, Failure> {
        let ours = self.request.cover.as_ref().and_then(|cover| cover.units(&device.uuid));
        if ours.is_some_and(|ours| self.request.filter.part_of(ours, device.memory).is_some()) {
            return Ok(attempt::units(probe, &self.request, device)?.is_err());
        }
        let region = Span::of(&device.uuid).lease();
        let leased = taken::in_region(probe, region)?;
        Ok(match ours {
            Some(ours) => ours.without(&leased) != *ours,
            None => {
                let wanted = self.request.filter.part_of(&Units::whole(), device.memory).unwrap_or(UNITS);
                leased.count() + wanted > UNITS
            }
        })
    }
}

impl Seeker for Wanted<'_> {
    type Found = Named;

    fn rooms(&mut self, probe: &Description) -> Result<Rooms, Failure> {
        let mut rooms = Rooms::default();
        for device in &self.devices {
            if !self.taken(probe, device)? {
                rooms.free.push(device.uuid.clone());
            }
        }
        Ok(rooms)
    }

    fn holders(&mut self, probe: &Description) -> Result<(Vec<i32>, bool), Failure> {
        let (mut pids, mut all) = (Vec::new(), true);
        for device in &self.devices {
            all &= holders::watchable(probe, Span::of(&device.uuid), &mut pids)?;
        }
        Ok((pids, all))
    }

    fn wanted(&self) -> usize {
        self.devices.len()
    }

    fn total(&self) -> usize {
        self.devices.len()
    }

    fn attempt(&mut self, _may: &dyn Fn(&Uuid) -> bool) -> Result<Tried<Named>, Failure> {
        Ok(match lease(self.place, &mut self.request, &self.devices, false)? {
            // Not asked about again at once: whose it is can change only when somebody ends.
            Named::Taken(..) => Tried::Busy(self.devices.iter().map(|device| device.uuid.clone()).collect()),
            found @ Named::Leased(_) => Tried::Found(found),
        })
    }

    fn may_have_more(&mut self, _probe: &Description) -> Result<bool, Failure> {
        Ok(true)
    }

    fn in_vain(&mut self, probe: &Description, waited: Duration) -> Failure {
        let device =
            self.devices.iter().find(|device| self.taken(probe, device).unwrap_or(true)).or(self.devices.first());
        let Some(device) = device else { return Failure::new(Kind::NoneFree, "no free device") };
        let mut failure = taken(&device.uuid, first_holder(self.place, probe, device, "lease").as_ref());
        failure.message = format!("{}; waited {}", failure.message, quantity::waited(waited));
        failure
    }
}
