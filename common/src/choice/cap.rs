//! `max_per_user`: how much one user holds, counted while a lock on the user's own byte
//! keeps the user's other calls from counting. Shares count as parts where the kernel
//! shows them, else whole; root may have any number.

use std::os::fd::OwnedFd;

use super::device_claim::Picked;
use crate::error::{Failure, Kind};
use crate::inventory::Inventory;
use crate::lock::claim::sign;
use crate::lock::ownership_proof::HolderProcess;
use crate::lock::{
    Claim, LockFile, OfdLock, Side, Span, UNITS, Units, holders, layout, user_locks,
};
use crate::procfs::{self, namespaces};
use crate::request::Request;

/// Keeps one call's choice counted: first by keeping the user's other calls from
/// counting, then by its signature on what was claimed.
#[derive(Debug, Default)]
#[must_use = "what it guards is not counted once it is dropped"]
pub struct Guard {
    /// The user's own byte, while this call counts and claims.
    counting: Option<OfdLock>,
    /// Uid and pid bytes beside the claims, until the lease or the holder has its own.
    signature: Option<OfdLock>,
    /// Copies of the claims' descriptors, so that the process of the signature shows the
    /// units also when the holder has them.
    claims: Vec<OwnedFd>,
}

impl Guard {
    /// The claims are made: signs them, and lets the user's next call count. Closing NVML
    /// and starting a holder may take their time.
    pub fn sign(
        self,
        lock_file: &LockFile,
        side: Side,
        picked: &[Picked],
    ) -> Result<Self, Failure> {
        self.sign_claims(lock_file, side, picked.iter().map(|picked| &picked.claim))
    }

    /// The same for claims without their devices.
    pub fn sign_claims<'c>(
        mut self,
        lock_file: &LockFile,
        side: Side,
        claims: impl Iterator<Item = &'c Claim>,
    ) -> Result<Self, Failure> {
        if self.counting.is_none() {
            return Ok(self);
        }
        let uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
        let pid = namespaces::host_pids().then(|| std::process::id() as i32);
        let signature = lock_file.open()?;
        for claim in claims {
            sign(&signature, side, claim.span(), uid, pid);
            self.claims.push(claim.description().copy()?);
        }
        self.signature = Some(signature);
        self.counting = None;
        Ok(self)
    }
}

/// What a user holds.
#[derive(Debug, Default)]
struct Held {
    units: i64,
    names: Vec<String>,
}

/// Whether this user may have more.
#[derive(Debug)]
pub enum Admission {
    /// Yes; the user's other calls do not count before the guard has signed.
    Within(Guard),
    /// Not now, and why.
    Over(Failure),
}

/// Counts what this user holds. With `more` units it must not be more than `most` devices.
pub fn enter(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
    most: u32,
    more: i64,
) -> Result<Admission, Failure> {
    let uid = nix::unistd::geteuid().as_raw();
    let byte = layout::uid(namespaces::host_uid(uid));
    let counting = match user_locks::enter(lock_file, byte, &[uid])? {
        user_locks::Entered::Ours(counting) => counting,
        // Where all processes are seen no call of this user is counting. The byte is a
        // stranger's, and another description stands for it.
        user_locks::Entered::Strangers if namespaces::host_pids() => lock_file.open()?,
        user_locks::Entered::Strangers | user_locks::Entered::Late => {
            let text = "another call of yours has not finished choosing in time";
            return Ok(Admission::Over(Failure::new(Kind::NoneFree, text)));
        }
    };
    let held = count(lock_file, probe, inventory, uid)?;
    if held.units + more <= i64::from(most) * UNITS {
        return Ok(Admission::Within(Guard {
            counting: Some(counting),
            ..Guard::default()
        }));
    }
    Ok(Admission::Over(held.over(most)))
}

impl Held {
    /// The failure of a user who has as many as `most` devices.
    fn over(&self, most: u32) -> Failure {
        let number = (self.units as f64 / UNITS as f64 * 100.0).round() / 100.0;
        let names = if self.names.is_empty() {
            String::new()
        } else {
            format!(": {}", self.names.join(", "))
        };
        Failure::new(
            Kind::NoneFree,
            format!("you hold {number} of at most {most}{names}"),
        )
        .hint("getgpu --release UUID gives up a reservation; getgpu --list shows all")
    }
}

/// A request for more than a user may ever have fails at once, waiting or not. How much
/// several shares are is known with the inventory.
pub fn possible(request: &Request, inventory: Option<&Inventory>) -> Result<(), Failure> {
    let wanted = match (request.filter.share, inventory) {
        (_, Some(inventory)) => request.most_units(inventory),
        (None, None) => request.most_units(&Inventory::default()),
        (Some(_), None) => return Ok(()),
    };
    let Some(most) = request
        .cap()
        .filter(|most| wanted > i64::from(*most) * UNITS)
    else {
        return Ok(());
    };
    let share = request.filter.share;
    let share = share.map_or_else(String::new, |share| format!(" with --share {share}"));
    let text = format!(
        "--count {}{share}: max_per_user allows {most} at a time on this node",
        request.count
    );
    Err(Failure::new(Kind::NoDevice, text).hint("ask for fewer devices"))
}

/// Whether this user could have `more` units now; takes nothing.
pub fn allows(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
    most: u32,
    more: i64,
) -> Result<bool, Failure> {
    let held = count(lock_file, probe, inventory, nix::unistd::geteuid().as_raw())?;
    Ok(held.units + more <= i64::from(most) * UNITS)
}

fn count(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
    uid: u32,
) -> Result<Held, Failure> {
    let host = namespaces::host_uid(uid);
    let mut held = Held::default();
    for device in &inventory.devices {
        let span = Span::of(&device.uuid);
        let mut units = Units::default();
        let mut who = None;
        for side in [Side::Lease, Side::Reservation] {
            // Anybody can lock a byte with this uid, so it counts only beside units that
            // somebody holds.
            if held_at_all(probe, span, side)? && holders::uids(probe, span, side)?.contains(&host)
            {
                let shown = shown(lock_file, probe, uid, side, span)?;
                units = units.union(&shown.units);
                who = who.or(shown.who);
            }
        }
        if !units.is_empty() {
            held.units += units.count();
            held.names
                .push(format!("{}{}", device.uuid, who.unwrap_or_default()));
        }
    }
    Ok(held)
}

/// What a user's processes show of one side of a device.
struct Shown {
    /// All units where it is not known how many.
    units: Units,
    /// The first of the processes, for people.
    who: Option<String>,
}

fn shown(
    lock_file: &LockFile,
    probe: &OfdLock,
    uid: u32,
    side: Side,
    span: Span,
) -> Result<Shown, Failure> {
    let (mut seen, mut all, mut who) = (Units::default(), true, None);
    for pid in holders::process_ids(probe, span, side)? {
        match procfs::euid(pid) {
            Some(euid) if euid == uid => {
                let units = holders::claimed_units_of(lock_file, pid, side, span);
                all &= !units.is_empty();
                seen = seen.union(&units);
                who = who.or_else(|| named(pid, side));
            }
            Some(_) => {}
            // Over, and a child has what it held: whose, and how much, is not known.
            None => all = false,
        }
    }
    let units = if seen.is_empty() || !all {
        Units::whole()
    } else {
        seen
    };
    Ok(Shown { units, who })
}

/// Whether anybody holds or claims units of one side of a device.
fn held_at_all(probe: &OfdLock, span: Span, side: Side) -> Result<bool, Failure> {
    let regions = match side {
        Side::Lease => [span.lease(), span.inner_lease()],
        Side::Reservation => [span.reservation(), span.inner_reservation()],
    };
    for region in regions {
        if probe.conflict(region)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A program, or for whom a reservation is.
fn named(pid: i32, side: Side) -> Option<String> {
    let holder = match side {
        Side::Reservation => HolderProcess::of(pid),
        Side::Lease => None,
    };
    let (pid, name) = match holder {
        Some(holder) => holders::stands_for(&holder.args),
        None => (pid, procfs::program_name(pid, &procfs::comm(pid)?)),
    };
    Some(format!(" (pid {pid}, {name})"))
}
