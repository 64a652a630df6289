//! Taking the devices that a grant names: nothing is chosen and NVML is not asked. What the call owns
//! of them already is taken inside of that; what another program has is in use.

use std::rc::Rc;
use std::time::Duration;

use super::gate;
use super::in_use::in_use;
use super::kind::{TakeKind, Way};
use super::taken::{Got, Part, Taken};
use crate::choice::device_claim::{self, Retry};
use crate::choice::offer::Rejected;
use crate::ownership::{Basis, Cover, Decision};
use crate::pool::Portion;
use crate::request::{Granted, Owned};
use getgpu_linux::procfs::{ancestry, namespaces};
use getgpu_linux::{Range, Stat, run_clock};
use getgpu_lock::{
    Claim, HolderArgs, LockFile, Occupancy, OfdLock, Side, Span, claim::named_lease, holders,
    occupancy, ownership_proof,
};
use getgpu_model::{Device, Diag, Failure, Units, Uuid};

/// How long a part of a device is tried again while others take theirs.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_micros(200);
/// How long a reservation that is held for a process that has exited is waited for: its holder ends
/// as soon as it has a processor.
const ENDING: Duration = Duration::from_millis(500);
/// How long a reservation inside the call's own may take to linger, and how often that is looked at.
const NOTICE: Duration = Duration::from_millis(300);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// What became of named devices.
#[derive(Debug)]
pub enum NamedOutcome {
    /// The call has them, unconfirmed.
    Taken(Taken),
    /// Another program has this one.
    InUse(Failure),
    /// The share that is wanted is larger than what there is of a device, or its memory is not
    /// known.
    TooLarge(Failure),
}

/// Devices that a grant names, all of which a program is to lease.
pub struct NamedTake<'a> {
    /// The lock.
    pub lock_file: &'a LockFile,
    /// Where a line goes about what is only assumed.
    pub diag: &'a Diag,
    /// How long reservations outlive their programs.
    pub linger: Duration,
    /// The request for just these devices (`Granted::named`).
    pub request: Rc<Granted>,
    /// The devices.
    pub devices: &'a [Device],
}

impl NamedTake<'_> {
    /// The devices' UUIDs.
    pub fn uuids(&self) -> Vec<Uuid> {
        let devices = self.devices.iter();
        devices.map(|device| device.uuid.clone()).collect()
    }

    /// What the call owns of them.
    pub fn owned(&self) -> Decision {
        let (lock_file, uuids) = (self.lock_file, self.uuids());
        self.request.owned_of(lock_file, &uuids, self.devices)
    }

    /// Takes them. If a reservation of this user or a lease of an ancestor covers all of them, they
    /// are taken inside it; any other one on the wanted units is in use.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read or locked.
    pub fn take(&self) -> Result<NamedOutcome, Failure> {
        let (mut used, mut has_waited) = (Vec::new(), false);
        loop {
            let (outcome, holder) = self.take_once()?;
            // Two programs of one script may try the same reservation while the script has a
            // second one that is unused. The next attempt finds the second one.
            match (&outcome, holder) {
                (NamedOutcome::InUse(_), Some(pid)) if !used.contains(&pid) => used.push(pid),
                (NamedOutcome::InUse(_), _) if !has_waited => {
                    has_waited = true;
                    self.wait_for_ending();
                    self.wait_for_lingering(holder)?;
                }
                _ => return Ok(outcome),
            }
        }
    }

    /// One attempt, with the holder of the reservation that it was made inside of.
    fn take_once(&self) -> Result<(NamedOutcome, Option<i32>), Failure> {
        let probe = self.lock_file.open()?;
        let mut is_held = false;
        for device in self.devices {
            is_held |= occupancy::seen(&probe, Span::of(&device.uuid))?.is_some();
        }
        // Where nothing is held the call owns nothing, and /proc need not be searched.
        let cover = if is_held { self.owned().cover() } else { None };
        let holder = holder(cover.as_ref());
        let request = Owned::inside(&self.request, cover.clone());
        let gate = (self.devices.len() > 1).then(|| gate::enter(self.lock_file));
        let gate = gate.transpose()?;
        let mut parts = Vec::new();
        for device in self.devices {
            let named = NamedDevice {
                all: self,
                probe: &probe,
                request: &request,
                device,
            };
            match named.take()? {
                Ok(got) => {
                    let device = device.clone();
                    parts.push(Part { device, got });
                }
                Err(why) => return Ok((why, holder)),
            }
        }
        drop(gate);
        let taken = Taken::new(parts, cover, None);
        Ok((NamedOutcome::Taken(taken), holder))
    }

    /// Waits at most [`ENDING`] for reservations of this user on the devices that are held for
    /// processes which have exited.
    fn wait_for_ending(&self) {
        let uid = nix::unistd::geteuid().as_raw();
        let is_ending = |args: &HolderArgs| {
            let mut devices = self.devices.iter();
            devices.any(|device| args.devices.contains(&device.uuid)) && args.is_ending()
        };
        let ending = ownership_proof::reservations(self.lock_file, Some(uid), &is_ending);
        // The search takes its time on a busy machine.
        let began = run_clock::now();
        for holder in ending {
            while Stat::runs(holder.pid, holder.start) && run_clock::since(began) < ENDING {
                run_clock::sleep(PAUSE);
            }
        }
    }

    /// Waits for reservations inside the one that the devices were to be taken inside of, as a call
    /// outside does: while they linger, and for a moment in which they may begin to.
    fn wait_for_lingering(&self, holder: Option<i32>) -> Result<(), Failure> {
        let (lock_file, uuids) = (self.lock_file, self.uuids());
        let inside = |pid| ownership_proof::is_inside_another(lock_file, pid, &uuids);
        if holder.is_none_or(inside) {
            return Ok(());
        }
        let probe = lock_file.open()?;
        let any = |region: fn(Span) -> Range| {
            for uuid in &uuids {
                if occupancy::any_held(&probe, &Units::whole(), region(Span::of(uuid)))? {
                    return Ok::<_, Failure>(true);
                }
            }
            Ok(false)
        };
        let (began, mut limit) = (run_clock::now(), NOTICE);
        while run_clock::since(began) < limit && any(Span::inner_reservation)? {
            if any(Span::inner_lingering)? {
                limit = self.linger + ENDING;
            }
            run_clock::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }
}

/// The holder of the reservation that devices are taken inside of.
fn holder(cover: Option<&Cover>) -> Option<i32> {
    match &cover?.basis {
        Basis::Reservation(holder) => Some(holder.pid),
        Basis::InheritedLease | Basis::AncestorLease => None,
    }
}

/// One of the devices.
struct NamedDevice<'a> {
    all: &'a NamedTake<'a>,
    probe: &'a OfdLock,
    /// What is asked for, inside of what the call owns.
    request: &'a Owned,
    device: &'a Device,
}

impl NamedDevice<'_> {
    /// Takes the device, or tells why not.
    fn take(&self) -> Result<Result<Got, NamedOutcome>, Failure> {
        let (own, portion) = self.request.portion(self.device);
        if portion == Portion::TooLarge {
            let failure = self.request.too_large(self.device);
            return Ok(Err(NamedOutcome::TooLarge(failure)));
        }
        let way = TakeKind::of_named(self.request.cover.as_ref(), portion)
            .rules()
            .way;
        let mut is_past_reservation = false;
        let claim = match way {
            Way::Join if self.part_inside(&own)? => None,
            Way::Join => return Ok(Ok(Got::Joined(own))),
            Way::Acquire => self.part()?,
            Way::AcquireIgnoringUnproven => match (self.part()?, portion) {
                (None, Portion::Units(wanted)) if !namespaces::host_pids() => {
                    is_past_reservation = true;
                    self.part_of_lease(wanted)?
                }
                (claim, _) => claim,
            },
            Way::NameThenReservations | Way::NameThenInside => {
                named_lease(self.all.lock_file, self.span(), own)?
            }
        };
        let Some(claim) = claim else {
            return Ok(Err(self.in_use("lease")));
        };
        // Asked behind the claim: before it a reservation may end, and another user reserve.
        let is_reserved = match way {
            // Other calls of this user may be dividing a part that it owns at this moment.
            Way::NameThenInside => self.divided(&claim)?,
            Way::NameThenReservations => self.reserved_for_others(&claim)?,
            Way::AcquireIgnoringUnproven if is_past_reservation => {
                self.reserved_for_others(&claim)?
            }
            Way::Join | Way::Acquire | Way::AcquireIgnoringUnproven => false,
        };
        if is_reserved {
            return Ok(Err(self.in_use("reservation")));
        }
        Ok(Ok(Got::Claimed(claim)))
    }

    fn span(&self) -> Span {
        Span::of(&self.device.uuid)
    }

    /// Whether other calls are dividing what this one owns: a second `$(getgpu)` under a first is
    /// inside the reservation that the first made.
    fn divided(&self, claim: &Claim) -> Result<bool, Failure> {
        let region = self.span().inner_reservation();
        let locks = holder(self.request.cover.as_ref()).map(ownership_proof::locks_of);
        let locks = locks.unwrap_or_default();
        let inside = ownership_proof::shown_in(&locks, self.all.lock_file, region);
        Ok(claim.others_inside(&inside)?.is_some())
    }

    /// Whether a program has a lease inside the one that this call inherits, and this call does not
    /// come from that program.
    fn part_inside(&self, own: &Units) -> Result<bool, Failure> {
        let (lock_file, span) = (self.all.lock_file, self.span());
        if occupancy::any_held(self.probe, own, span.inner_lease())? {
            let locks = ownership_proof::own_and_ancestors_locks();
            if ownership_proof::shown_in(&locks, lock_file, span.inner_lease()).is_empty() {
                return Ok(true);
            }
        }
        if !occupancy::any_held(self.probe, own, span.inner_reservation())? {
            return Ok(false);
        }
        // A lease of the Python package is a reservation.
        let lineage = ancestry::lineage();
        let beside = ownership_proof::reservations(lock_file, Some(self.request.user), &|args| {
            args.is_lease_beside(&lineage, None)
        });
        Ok(beside.iter().any(|holder| {
            let locks = ownership_proof::locks_of(holder.pid);
            let part = ownership_proof::shown_in(&locks, lock_file, span.inner_reservation());
            part.difference(own) != part
        }))
    }

    fn reserved_for_others(&self, claim: &Claim) -> Result<bool, Failure> {
        // One that is only tentative may be past its own look at the leases: a slow NVML keeps it
        // there for longer than this call waits.
        if claim.other_side()?.is_none() {
            return Ok(false);
        }
        // Behind a reservation of this user another one may be tried on the rest of the device; from
        // its end on only what is confirmed and signed is left.
        Ok(!claim.other_side_is_settled()? || !self.reserved_for_us()?)
    }

    /// Whether a reservation counts as this user's although nothing can be proven: in another pid
    /// namespace the uids that sign decide, which must all be this user's, since they do not say who
    /// has which part. There uid 0 may be any user's, so a line says what was assumed.
    fn reserved_for_us(&self) -> Result<bool, Failure> {
        if namespaces::host_pids() {
            return Ok(false);
        }
        let uuid = &self.device.uuid;
        let own = nix::unistd::geteuid().as_raw();
        let signed = holders::uids(self.probe, self.span(), Side::Reservation)?;
        if own == 0 && !signed.is_empty() {
            self.all.diag.warn(&format!(
                "{uuid}: reserved on the host: running there because this container was given it"
            ));
            return Ok(true);
        }
        let own = namespaces::host_uid(own);
        Ok(!signed.is_empty() && signed.iter().all(|uid| *uid == own))
    }

    fn in_use(&self, kind: &str) -> NamedOutcome {
        let grant = &self.request.grant;
        let failure = in_use(self.all.lock_file, self.probe, self.device, kind, grant);
        NamedOutcome::InUse(failure)
    }

    /// Claims a share of the units that this process owns, or else of the units that others leave
    /// free. Tries again while other calls hold tentative claims there.
    fn part(&self) -> Result<Option<Claim>, Failure> {
        let (lock_file, side) = (self.all.lock_file, Side::Lease);
        let retry = Retry::new(PATIENCE, PAUSE);
        loop {
            match device_claim::claim(lock_file, self.probe, side, self.request, self.device)? {
                Ok(claim) => return Ok(Some(claim)),
                Err(Rejected::Tentative) if retry.pause() => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Claims a share of the units that no lease has, past the reservation of this user.
    fn part_of_lease(&self, wanted: i64) -> Result<Option<Claim>, Failure> {
        let began = run_clock::now();
        while run_clock::since(began) < PATIENCE {
            let leased = Occupancy::of(self.probe, &[self.span().lease()])?.all();
            let Some(room) = Units::whole().difference(&leased).first(wanted) else {
                return Ok(None);
            };
            if let Some(claim) = named_lease(self.all.lock_file, self.span(), room)? {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }
}
