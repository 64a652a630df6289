//! Leasing the devices that CUDA_VISIBLE_DEVICES names: nothing is chosen and NVML is not
//! asked. If this process owns a part of a device already, it leases that part; if
//! another program has a lease there, it can wait for its end.

use std::time::{Duration, Instant};

use getgpu_choose::{
    Basis, Cover, MARGIN, Offer, Portion, Rejected, Request, choice::device_claim,
};
use getgpu_linux::{
    Range, Stat,
    procfs::{ancestry, namespaces},
};
use getgpu_lock::{
    Claim, Holder, HolderArgs, LockFile, OfdLock, Side, Span, claim::named_lease, holders,
    occupancy, ownership_proof,
};
use getgpu_model::{Device, Failure, Kind, Units, Uuid, quantity, share};

use crate::call::CudawrapCall;
use crate::choose::uuids;
use crate::lease::Lease;

/// How long a part of a device is tried again while others take theirs.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_micros(200);
/// How long a reservation inside this call's own may take to linger, and how often that is looked
/// at.
const NOTICE: Duration = Duration::from_millis(300);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// What became of named devices.
pub enum Named {
    Leased(Lease),
    /// Another user has this one: who, if that is known.
    Taken(Uuid, Option<Holder>),
    /// The share that is wanted is larger than what there is of a device, or its memory
    /// is not known.
    TooLarge(Failure),
}

/// Leases named devices for the call's program. If a reservation of this user or a lease of an
/// ancestor covers all of them, the lease is taken inside it. Any other reservation or lease on
/// the wanted units makes the result `Taken`.
pub fn lease(
    call: &CudawrapCall<'_>,
    request: &mut Request,
    devices: &[Device],
) -> Result<Named, Failure> {
    let (mut used, mut looked) = (Vec::new(), false);
    loop {
        let named = lease_once(call, request, devices)?;
        // Two programs of one script may try the same reservation while the script has a
        // second one that is unused. The next attempt finds the second one.
        match (&named, holder(request)) {
            (Named::Taken(..), Some(pid)) if !used.contains(&pid) => used.push(pid),
            (Named::Taken(..), _) if !looked => {
                looked = true;
                wait_for_ending(call.lock_file, devices);
                wait_for_lingering(call, request, devices)?;
            }
            _ => return Ok(named),
        }
    }
}

/// Waits at most [`MARGIN`] for reservations of this user on the devices that are held for
/// processes which have exited.
fn wait_for_ending(lock_file: &LockFile, devices: &[Device]) {
    let uid = nix::unistd::geteuid().as_raw();
    let is_ending = |args: &HolderArgs| {
        let mut devices = devices.iter();
        devices.any(|device| args.devices.contains(&device.uuid)) && args.is_ending()
    };
    let ending = ownership_proof::reservations(lock_file, Some(uid), &is_ending);
    // The search takes its time on a busy machine.
    let began = Instant::now();
    for holder in ending {
        while Stat::runs(holder.pid, holder.start) && began.elapsed() < MARGIN {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Waits for reservations inside the one that the devices were to be leased under, as a call outside
/// does: while they linger, and for a moment in which they may begin to.
fn wait_for_lingering(
    call: &CudawrapCall<'_>,
    request: &Request,
    devices: &[Device],
) -> Result<(), Failure> {
    let Some(pid) = holder(request) else {
        return Ok(());
    };
    let spans: Vec<Span> = devices.iter().map(|d| Span::of(&d.uuid)).collect();
    let locks = ownership_proof::locks_of(pid);
    let is_inner = |span: &Span| {
        !ownership_proof::shown_in(&locks, call.lock_file, span.inner_reservation()).is_empty()
    };
    if spans.iter().any(is_inner) {
        // There is one level: nothing is inside it.
        return Ok(());
    }
    let probe = call.lock_file.open()?;
    let any = |region: fn(Span) -> Range| {
        let mut spans = spans.iter();
        spans.try_fold(false, |found, span| {
            let held = occupancy::any_held(&probe, &Units::whole(), region(*span))?;
            Ok::<_, Failure>(found || held)
        })
    };
    let (began, mut limit) = (Instant::now(), NOTICE);
    while began.elapsed() < limit && any(Span::inner_reservation)? {
        if any(Span::inner_lingering)? {
            limit = call.settings.linger + MARGIN;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Ok(())
}

/// The holder of the reservation that the devices were to be leased under.
fn holder(request: &Request) -> Option<i32> {
    match &request.cover.as_ref()?.basis {
        Basis::Reservation(holder) => Some(holder.pid),
        Basis::InheritedLease | Basis::AncestorLease => None,
    }
}

fn lease_once(
    call: &CudawrapCall<'_>,
    request: &mut Request,
    devices: &[Device],
) -> Result<Named, Failure> {
    let lock_file = call.lock_file;
    let probe = lock_file.open()?;
    request.filter.grant = Some(uuids(devices));
    request.takes_kept = true;
    let mut held = false;
    for device in devices {
        held |= occupancy::seen(&probe, Span::of(&device.uuid))?.is_some();
    }
    // Where nothing is held this call can own nothing, and /proc need not be searched.
    request.cover = None;
    if held {
        request.cover = request.owned(lock_file, None).cover();
    }
    let (mut claims, mut inherited) = (Vec::new(), Vec::new());
    for device in devices {
        let named = NamedDevice {
            call,
            probe: &probe,
            request,
            device,
        };
        match named.claim()? {
            NamedPart::Claimed(claim) => claims.push(claim),
            NamedPart::Inherited(units) => inherited.push((Span::of(&device.uuid), units)),
            NamedPart::None(why) => return Ok(why),
        }
    }
    // Closed first, so that the lease can have its low descriptor number.
    drop(probe);
    let lease = Lease::confirm(call, request, claims, &inherited)?;
    Ok(Named::Leased(lease))
}

/// What can be had of one named device.
enum NamedPart {
    Claimed(Claim),
    /// An ancestor's lease on these units, which this program shares.
    Inherited(Units),
    None(Named),
}

/// One of the devices that are to be leased.
struct NamedDevice<'a> {
    call: &'a CudawrapCall<'a>,
    probe: &'a OfdLock,
    request: &'a Request,
    device: &'a Device,
}

impl NamedDevice<'_> {
    fn claim(&self) -> Result<NamedPart, Failure> {
        let (lock_file, span) = (self.call.lock_file, Span::of(&self.device.uuid));
        let reserved = self
            .request
            .cover
            .as_ref()
            .is_some_and(Cover::is_reservation);
        let (ours, portion) = wanted(self.request, self.device);
        let claim = match (ours, portion) {
            (_, Portion::TooLarge) => {
                return Ok(NamedPart::None(Named::TooLarge(self.too_large())));
            }
            (_, Portion::Units(_)) => self.part()?,
            (Some(ours), Portion::All) if !reserved => {
                return Ok(if self.part_inside(ours)? {
                    self.taken("lease")
                } else {
                    NamedPart::Inherited(ours.clone())
                });
            }
            (Some(ours), Portion::All) => named_lease(lock_file, span, ours.clone())?,
            (None, Portion::All) => named_lease(lock_file, span, Units::whole())?,
        };
        let Some(claim) = claim else {
            return Ok(self.taken("lease"));
        };
        // Other calls of this user may be dividing a part that it owns at this moment; a
        // part that it does not own may be reserved for another user.
        let in_the_way = match ours {
            Some(_) if portion == Portion::All => self.divided(&claim)?,
            Some(_) => false,
            None => self.reserved_for_others(&claim)?,
        };
        if in_the_way {
            return Ok(self.taken("reservation"));
        }
        Ok(NamedPart::Claimed(claim))
    }

    /// Whether other calls are dividing what this one owns: a second `$(getgpu)` under a
    /// first is inside the reservation that the first made.
    fn divided(&self, claim: &Claim) -> Result<bool, Failure> {
        let region = Span::of(&self.device.uuid).inner_reservation();
        let inside = holder(self.request)
            .map(|pid| {
                let locks = ownership_proof::locks_of(pid);
                ownership_proof::shown_in(&locks, self.call.lock_file, region)
            })
            .unwrap_or_default();
        Ok(claim.others_inside(&inside)?.is_some())
    }

    /// Whether a program has a lease inside the one that this call inherits, and this call does
    /// not come from that program.
    fn part_inside(&self, ours: &Units) -> Result<bool, Failure> {
        let (lock_file, span) = (self.call.lock_file, Span::of(&self.device.uuid));
        if occupancy::any_held(self.probe, ours, span.inner_lease())? {
            let locks = ownership_proof::own_and_ancestors_locks();
            if ownership_proof::shown_in(&locks, lock_file, span.inner_lease()).is_empty() {
                return Ok(true);
            }
        }
        if !occupancy::any_held(self.probe, ours, span.inner_reservation())? {
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
            part.difference(ours) != part
        }))
    }

    fn reserved_for_others(&self, claim: &Claim) -> Result<bool, Failure> {
        // One that is only tentative may be past its own look at the leases: a slow NVML keeps it
        // there for longer than this call waits.
        Ok(claim.other_side()?.is_some() && !self.reserved_for_us()?)
    }

    /// Whether a reservation counts as this user's although nothing can be proven: in
    /// another pid namespace the uid that it is signed with decides. There uid 0 may be
    /// any user's, so a line says what was assumed.
    fn reserved_for_us(&self) -> Result<bool, Failure> {
        if namespaces::host_pids() {
            return Ok(false);
        }
        let uuid = &self.device.uuid;
        let own = nix::unistd::geteuid().as_raw();
        let signed = holders::uids(self.probe, Span::of(uuid), Side::Reservation)?;
        if own == 0 && !signed.is_empty() {
            self.call.diag.warn(&format!(
                "{uuid}: reserved on the host: running there because this container was given it"
            ));
            return Ok(true);
        }
        Ok(signed.contains(&namespaces::host_uid(own)))
    }

    /// Another user's lease or reservation is in the way.
    fn taken(&self, kind: &str) -> NamedPart {
        let holder = first_holder(self.call.lock_file, self.probe, self.device, kind);
        NamedPart::None(Named::Taken(self.device.uuid.clone(), holder))
    }

    /// The failure of a share that no device of the grant has room for.
    fn too_large(&self) -> Failure {
        let (uuid, share) = (&self.device.uuid, self.request.filter.share);
        let share = share.map(|share| share.to_string()).unwrap_or_default();
        let (ours, _) = wanted(self.request, self.device);
        let part = ours.filter(|units| !units.is_whole());
        let why = match (self.device.memory, part) {
            (Some(memory), Some(units)) => {
                let mebibytes = ((memory >> 20) as f64 * share::fraction(units)) as u64;
                let part = quantity::size_text(mebibytes << 20);
                format!("your part of {uuid} has {part} of memory")
            }
            (Some(memory), None) => format!("{uuid} has {} of memory", quantity::size_text(memory)),
            (None, _) => format!("{uuid}: NVML does not report how much memory it has"),
        };
        Failure::new(Kind::NoDevice, format!("--share {share}: {why}"))
            .hint("a fraction, such as --share 1/2, fits every device")
    }

    /// Claims a share of the units that this process owns, or else of the units that others
    /// leave free. Tries again while other calls hold tentative claims there.
    fn part(&self) -> Result<Option<Claim>, Failure> {
        let began = Instant::now();
        loop {
            let lock_file = self.call.lock_file;
            match device_claim::claim(
                lock_file,
                self.probe,
                Side::Lease,
                self.request,
                self.device,
            )? {
                Offer::Available(claim) => return Ok(Some(claim)),
                Offer::Rejected(Rejected::Tentative) if began.elapsed() < PATIENCE => {
                    std::thread::sleep(PAUSE);
                }
                Offer::Rejected(_) => return Ok(None),
            }
        }
    }
}

/// What of a device this call owns, and how much of that, or of all of it, is wanted.
fn wanted<'r>(request: &'r Request, device: &Device) -> (Option<&'r Units>, Portion) {
    let cover = request.cover.as_ref();
    let ours = cover.and_then(|cover| cover.units(&device.uuid));
    let whole = Units::whole();
    let portion = request
        .filter
        .portion(ours.unwrap_or(&whole), device.memory);
    (ours, portion)
}

/// Who holds a device in this way: another program than those that this call comes from, if
/// there is one.
pub fn first_holder(
    lock_file: &LockFile,
    probe: &OfdLock,
    device: &Device,
    kind: &str,
) -> Option<Holder> {
    let held = holders::holdings(lock_file, probe, Span::of(&device.uuid)).ok()?;
    held.foremost(Some(kind))
}

/// `MIG-12..: in use by ben (pid 4711, python3)`
pub fn in_use(uuid: &Uuid, holder: Option<&Holder>) -> String {
    let Some(holder) = holder else {
        return format!("{uuid}: in use by another program");
    };
    let user = holder.user.as_deref().unwrap_or("another user");
    match (holder.pid, &holder.program) {
        (Some(pid), Some(program)) => format!("{uuid}: in use by {user} (pid {pid}, {program})"),
        _ => format!("{uuid}: in use by {user}"),
    }
}

/// The failure of a named device that another user has.
pub fn taken(uuid: &Uuid, holder: Option<&Holder>, request: &Request) -> Failure {
    Failure::new(Kind::NoneFree, in_use(uuid, holder)).hint(request.grant.without())
}
