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
const NOTICE: Duration = Duration::from_millis(300);
/// How long it waits for one whose holder has not noticed yet that its programs have exited: on a
/// busy machine that takes its time, and one that was stopped never does.
const UNNOTICED: Duration = Duration::from_millis(2500);

/// Whether devices are about to become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prospect {
    None,
    /// Reservations of the own user might begin to linger within [`NOTICE`].
    Possible,
    /// Reservations of the own user, as many as are needed, might begin to linger as soon as their
    /// holders have a processor.
    Unnoticed,
    /// Enough reservations linger.
    Lingering,
}

impl Prospect {
    /// How long a call waits for it, where reservations outlast their programs by `linger`.
    pub(crate) fn time(self, linger: Duration) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Possible => NOTICE,
            Self::Unnoticed => UNNOTICED,
            Self::Lingering => linger + MARGIN,
        }
    }

    /// How often it waits for such a time again, if reservations linger when that has passed.
    pub(crate) fn extensions(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Possible => 2,
            Self::Unnoticed | Self::Lingering => 1,
        }
    }
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
    let with = |own: &[HolderProcess]| {
        let leaving = |device: &Device| {
            let own = own_units(lock_file, request.level(), own, device);
            Ok(marked(device)?.union(&own))
        };
        Ok::<_, Failure>(!own.is_empty() && is_enough(probe, request, inventory, &leaving)?)
    };
    let mut own = own_that_may_end_soon(lock_file, request.level());
    if !with(&own)? {
        return Ok(Prospect::None);
    }
    own.retain(has_outlived_its_programs);
    Ok(if with(&own)? {
        Prospect::Unnoticed
    } else {
        Prospect::Possible
    })
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
    let soon = own_that_may_end_soon(lock_file, Level::Outer);
    Ok(if soon.iter().any(has_outlived_its_programs) {
        Prospect::Unnoticed
    } else if soon.is_empty() {
        Prospect::None
    } else {
        Prospect::Possible
    })
}

/// The holders of the own user whose reservations may end within [`NOTICE`], and free something
/// on this level then: those inside a reservation hold its device for that one, which stays.
fn own_that_may_end_soon(lock_file: &LockFile, level: Level) -> Vec<HolderProcess> {
    let may_end_soon = |args: &HolderArgs| args.is_plain() || args.is_ending();
    let uid = nix::unistd::geteuid().as_raw();
    let mut own = ownership_proof::reservations(lock_file, Some(uid), &may_end_soon);
    if level == Level::Outer {
        own.retain(|holder| !is_inside_another(lock_file, holder));
    }
    own
}

fn is_inside_another(lock_file: &LockFile, holder: &HolderProcess) -> bool {
    let locks = ownership_proof::locks_of(holder.pid);
    holder.args.devices.iter().any(|device| {
        let inner = Span::of(device).inner_reservation();
        !ownership_proof::shown_in(&locks, lock_file, inner).is_empty()
    })
}

/// Whether a holder waits for processes that have all exited: it notices that as soon as it has a
/// processor, which on a busy machine takes longer than [`NOTICE`], and may then find other
/// programs of its reservation. Its pidfds show it, from Linux 5.5; before, an exit that its parent
/// has noticed is not shown, and this is false.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::private_lock::private_lock;

    /// Its end frees nothing for those outside the reservation that it is inside of.
    #[test]
    fn a_reservation_inside_another_shows_both_of_its_ranges() {
        let (_directory, lock_file) = private_lock();
        let words = ["MIG-0d1e2f30-1111-5222-8333-444455556666", "caller=1(init)"];
        let holder = HolderProcess {
            pid: std::process::id() as i32,
            start: 0,
            args: HolderArgs::parse(words).unwrap(),
        };
        let span = Span::of(&holder.args.devices[0]);
        let lock = lock_file.open().unwrap();
        assert!(lock.try_read(span.reservation()).unwrap());
        assert!(!is_inside_another(&lock_file, &holder));
        assert!(lock.try_read(span.inner_reservation()).unwrap());
        assert!(is_inside_another(&lock_file, &holder));
    }
}
