//! `max_per_user`: how much one user holds, counted while a lock on the user's own byte
//! keeps the user's other calls from counting. What counts is what the kernel shows of the
//! user's own processes, since anybody can sign for anybody; root may have any number.

use crate::causes::{ChooseCause, HeldRemedy};
use crate::request::Owned;
use getgpu_linux::procfs::{self, namespaces};
use getgpu_lock::{
    HolderProcess, Level, LockFile, OfdLock, Side, Span, holders, layout, user_locks,
};
use getgpu_model::{Failure, Inventory, UNITS, Units};

/// The lock on the user's byte. It is held until the new lease or reservation is visible, so that
/// two calls cannot both pass the limit.
pub type Guard = Option<OfdLock>;

/// What a user holds.
#[derive(Debug, Default)]
struct HeldByUser {
    /// Units of all devices together.
    units: i64,
    names: Vec<String>,
    /// Some of it is reserved.
    reserves: bool,
}

/// Whether this user may have more.
#[derive(Debug)]
pub enum Admission {
    /// Yes; the user's other calls do not count while the guard is kept.
    Within(Guard),
    /// Not now, and why.
    Over(Failure),
}

/// Whether this user may have what is asked for; the guard keeps the user's other calls from counting
/// meanwhile.
///
/// # Errors
///
/// The lock file cannot be read or locked.
pub fn enter(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
    request: &Owned,
) -> Result<Admission, Failure> {
    if request.cap().is_none() {
        return Ok(Admission::Within(None));
    }
    let uid = nix::unistd::geteuid().as_raw();
    let byte = layout::uid(namespaces::host_uid(uid));
    let counting = match user_locks::enter(lock_file, byte, &[uid])? {
        user_locks::Entered::Ours(counting) => counting,
        // Where all processes are seen no call of this user is counting. The byte is a
        // stranger's, and another description stands for it.
        user_locks::Entered::Strangers if namespaces::host_pids() => lock_file.open()?,
        user_locks::Entered::Strangers | user_locks::Entered::Late => {
            return Ok(Admission::Over(ChooseCause::StillChoosing.into()));
        }
    };
    let over = over(lock_file, probe, inventory, request)?;
    Ok(over.map_or(Admission::Within(Some(counting)), Admission::Over))
}

impl HeldByUser {
    /// The failure of a user who has as many as `most` devices.
    fn limit_error(&self, most: u32) -> Failure {
        let number = (self.units as f64 / UNITS as f64 * 100.0).round() / 100.0;
        let names = if self.names.is_empty() {
            String::new()
        } else {
            format!(": {}", self.names.join(", "))
        };
        let remedy = match self.reserves {
            true => HeldRemedy::OfReservation,
            false => HeldRemedy::OfLease,
        };
        ChooseCause::AtLimit {
            number,
            most,
            names,
            remedy,
        }
        .into()
    }
}

/// A request for more than a user may ever have fails as soon as the node is listed, waiting or not.
///
/// # Errors
///
/// It is for more.
pub fn check_satisfiable(request: &Owned, inventory: &Inventory) -> Result<(), Failure> {
    let wanted = request.most_units(inventory);
    let is_too_little = |most: &u32| wanted > i64::from(*most) * UNITS;
    let Some(most) = request.cap().filter(is_too_little) else {
        return Ok(());
    };
    let share = request.filter.share;
    let share = share.map_or_else(String::new, |share| format!(" with --share {share}"));
    let count = request.count;
    Err(ChooseCause::MoreThanLimit { count, share, most }.into())
}

/// Why this user could not have what is asked for now, if the limit is in the way; takes nothing.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn over(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
    request: &Owned,
) -> Result<Option<Failure>, Failure> {
    let Some(most) = request.cap() else {
        return Ok(None);
    };
    let more = request.most_units(inventory);
    let held = count(lock_file, probe, inventory, nix::unistd::geteuid().as_raw())?;
    let is_over = held.units + more > i64::from(most) * UNITS;
    Ok(is_over.then(|| held.limit_error(most)))
}

fn count(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
    uid: u32,
) -> Result<HeldByUser, Failure> {
    let host = namespaces::host_uid(uid);
    let mut held = HeldByUser::default();
    for device in &inventory.devices {
        let span = Span::of(&device.uuid);
        let mut units = Units::default();
        let mut who = None;
        for side in [Side::Lease, Side::Reservation] {
            // Any user can lock a byte with this uid, so it counts only beside units that
            // are held.
            let is_held = probe.conflict(span.of_side(side, Level::Outer))?.is_some();
            if is_held && holders::uids(probe, span, side)?.contains(&host) {
                let (shown, by) = shown(lock_file, probe, uid, side, span)?;
                units = units.union(&shown);
                held.reserves |= side == Side::Reservation;
                who = who.or(by);
            }
        }
        if !units.is_empty() {
            held.units += units.count();
            let name = format!("{}{}", device.uuid, who.unwrap_or_default());
            held.names.push(name);
        }
    }
    Ok(held)
}

/// What a user's processes show of one side of a device: all units where a user namespace hides how
/// many, and the first of the processes, for people.
fn shown(
    lock_file: &LockFile,
    probe: &OfdLock,
    uid: u32,
    side: Side,
    span: Span,
) -> Result<(Units, Option<String>), Failure> {
    // In a pid namespace of its own the bytes are numbers of other processes.
    let named = namespaces::host_pids().then(|| holders::process_ids(probe, span, side));
    let named = named.transpose()?.unwrap_or_default();
    let (mut units, mut who, mut unsigned) = (Units::default(), None, named.is_empty());
    for pid in named {
        match procfs::euid(pid) {
            Some(euid) if euid != uid => {}
            Some(_) if !holders::is_innocent(lock_file, pid, side, span) => {
                let own = holders::units_of(lock_file, pid, side, span);
                if own.is_empty() && namespaces::host_users() {
                    // It may not be read, and so another user may have signed with its number.
                    unsigned = true;
                    continue;
                }
                // From one user namespace of a user no process of another can be read.
                let hidden = Units::whole();
                units = units.union(if own.is_empty() { &hidden } else { &own });
                who = who.or_else(|| named_process(pid, side));
            }
            // A child has what this one held, or another user has signed with its number.
            _ => unsigned = true,
        }
    }
    if unsigned {
        let this = std::process::id() as i32;
        let others = procfs::pids().into_iter().filter(|pid| *pid != this);
        for pid in others.filter(|pid| procfs::euid(*pid) == Some(uid)) {
            units = units.union(&holders::units_of(lock_file, pid, side, span));
        }
    }
    Ok((units, who))
}

/// A program, or for whom a reservation is.
fn named_process(pid: i32, side: Side) -> Option<String> {
    let holder = match side {
        Side::Reservation => HolderProcess::of(pid),
        Side::Lease => None,
    };
    let (pid, name) = match holder {
        Some(holder) => holders::stands_for(&holder),
        None => (pid, procfs::program_name(pid, &procfs::comm(pid)?)),
    };
    Some(format!(" (pid {pid}, {name})"))
}
