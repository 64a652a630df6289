//! Reservations that are about to end: those whose last program has exited, as their
//! holders show or the kernel shows of these. A call that finds too few free devices waits
//! for these, so that a loop of short programs goes on although no reservation is handed
//! from one call to the next.

use std::time::Duration;

use crate::choice::device_claim;
use crate::request::Request;
use getgpu_linux::{
    Stat,
    procfs::{fdinfo, namespaces},
};
use getgpu_lock::{
    HolderArgs, HolderProcess, Level, LockFile, OfdLock, Side, Span, holders, occupancy,
    ownership_proof,
};
use getgpu_model::{Device, Failure, Inventory, Units};

/// How much longer than `linger` a call waits for a lingering reservation.
pub const MARGIN: Duration = Duration::from_millis(500);
/// How long a call waits for a plain reservation of its user that does not linger: its holder
/// may be about to see a program for the first time, or one that exits.
pub(crate) const NOTICE: Duration = Duration::from_millis(300);

/// Whether devices are about to become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prospect {
    None,
    /// Reservations of the own user might begin to linger within [`NOTICE`].
    Possible,
    /// Enough reservations linger.
    Lingering,
}

/// Whether the request could be served as soon as lingering reservations have ended.
///
/// # Errors
///
/// The lock file cannot be read.
pub(crate) fn prospect(
    lock_file: &LockFile,
    probe: &OfdLock,
    request: &Request,
    inventory: &Inventory,
) -> Result<Prospect, Failure> {
    let marked = |device: &Device| marked_units(probe, request.level(), device);
    if is_enough(probe, request, inventory, &marked)? {
        return Ok(Prospect::Lingering);
    }
    let soon = own_that_may_end_soon(lock_file);
    let outlived = soon
        .iter()
        .filter(|holder| has_outlived_its_programs(holder));
    let outlived = outlived.cloned().collect::<Vec<_>>();
    for (own, prospect) in [
        (&outlived, Prospect::Lingering),
        (&soon, Prospect::Possible),
    ] {
        let leaving = |device: &Device| {
            let own = own_units(lock_file, request.level(), own, device);
            Ok(marked(device)?.union(&own))
        };
        if !own.is_empty() && is_enough(probe, request, inventory, &leaving)? {
            return Ok(prospect);
        }
    }
    Ok(Prospect::None)
}

/// The same for a user who holds as many devices as the site allows: only the user's own
/// reservations count, on whatever device.
///
/// # Errors
///
/// The lock file cannot be read.
pub(crate) fn prospect_within_limit(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
) -> Result<Prospect, Failure> {
    let host_uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
    for device in &inventory.devices {
        let span = Span::of(&device.uuid);
        if !marked_units(probe, Level::Outer, device)?.is_empty()
            && holders::uids(probe, span, Side::Reservation)?.contains(&host_uid)
        {
            return Ok(Prospect::Lingering);
        }
    }
    let soon = own_that_may_end_soon(lock_file);
    Ok(if soon.iter().any(has_outlived_its_programs) {
        Prospect::Lingering
    } else if soon.is_empty() {
        Prospect::None
    } else {
        Prospect::Possible
    })
}

/// The holders of the own user whose reservations may end within [`NOTICE`].
fn own_that_may_end_soon(lock_file: &LockFile) -> Vec<HolderProcess> {
    let may_end_soon = |args: &HolderArgs| args.is_plain() || args.is_ending();
    let uid = nix::unistd::geteuid().as_raw();
    ownership_proof::reservations(lock_file, Some(uid), &may_end_soon)
}

/// Whether a holder has waited for processes, and all of them have exited: it notices that as
/// soon as it has a processor, which on a busy machine takes longer than [`NOTICE`]. Its pidfds
/// show it (Linux 5.3; before that it has none, and this is false).
fn has_outlived_its_programs(holder: &HolderProcess) -> bool {
    // One that cannot be looked at (hidepid, another pid namespace) may still run.
    let has_exited = |pid: &i32| *pid < 0 || Stat::read(*pid).is_some_and(|stat| !stat.alive());
    let awaited = fdinfo::pidfds(&holder.pid.to_string());
    !awaited.is_empty() && awaited.iter().all(has_exited)
}

/// Whether as many devices as the request wants have room, some of them only when the
/// units that `leaving` gives are free.
fn is_enough(
    probe: &OfdLock,
    request: &Request,
    inventory: &Inventory,
    leaving: &dyn Fn(&Device) -> Result<Units, Failure>,
) -> Result<bool, Failure> {
    let (mut room, mut soon) = (0, 0);
    for device in request.filter.pool(inventory) {
        if device_claim::units(probe, request, device)?.is_available() {
            room += 1;
        } else if device_claim::fits_without(probe, request, device, &leaving(device)?)? {
            soon += 1;
        }
    }
    Ok(soon > 0 && room + soon >= request.count)
}

/// The units of a device that holders show as lingering.
fn marked_units(probe: &OfdLock, level: Level, device: &Device) -> Result<Units, Failure> {
    let span = Span::of(&device.uuid);
    occupancy::in_region(
        probe,
        match level {
            Level::Outer => span.lingering(),
            Level::Inner { .. } => span.inner_lingering(),
        },
    )
}

/// The units of a device that these reservations hold.
fn own_units(
    lock_file: &LockFile,
    level: Level,
    reservations: &[HolderProcess],
    device: &Device,
) -> Units {
    let span = Span::of(&device.uuid);
    let region = span.of_side(Side::Reservation, level);
    let of_device = reservations
        .iter()
        .filter(|holder| holder.args.devices.contains(&device.uuid));
    of_device.fold(Units::default(), |units, holder| {
        let locks = ownership_proof::locks_of(holder.pid);
        units.union(&ownership_proof::shown_in(&locks, lock_file, region))
    })
}
