//! Reservations that are about to end: those whose holders show that their last program
//! has exited. A call that finds too few free devices waits for these, so that a loop of
//! short programs goes on although no reservation is handed from one call to the next.

use std::time::Duration;

use crate::choice::device_claim;
use crate::request::Request;
use getgpu_linux::procfs::namespaces;
use getgpu_lock::{
    HolderArgs, HolderProcess, Level, LockFile, OfdLock, Side, Span, holders, occupancy,
    ownership_proof,
};
use getgpu_model::{Device, Failure, Inventory, Units};

/// How much longer than `linger` a call waits for a lingering reservation.
pub const MARGIN: Duration = Duration::from_millis(500);
/// How long a call waits for a plain reservation of its user, and for one that is held for a
/// process that has exited: the holder may be about to notice that exit.
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
    let uid = nix::unistd::geteuid().as_raw();
    let soon = ownership_proof::reservations(lock_file, Some(uid), &may_end_soon);
    let own = |device: &Device| {
        let own = own_units(lock_file, request.level(), &soon, device);
        Ok(marked(device)?.union(&own))
    };
    if !soon.is_empty() && is_enough(probe, request, inventory, &own)? {
        return Ok(Prospect::Possible);
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
    let uid = nix::unistd::geteuid().as_raw();
    let host_uid = namespaces::host_uid(uid);
    for device in &inventory.devices {
        let span = Span::of(&device.uuid);
        if !marked_units(probe, Level::Outer, device)?.is_empty()
            && holders::uids(probe, span, Side::Reservation)?.contains(&host_uid)
        {
            return Ok(Prospect::Lingering);
        }
    }
    let soon = ownership_proof::reservations(lock_file, Some(uid), &may_end_soon);
    Ok(if soon.is_empty() {
        Prospect::None
    } else {
        Prospect::Possible
    })
}

/// Whether a reservation may end within [`NOTICE`].
fn may_end_soon(args: &HolderArgs) -> bool {
    args.is_plain() || args.is_ending()
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
