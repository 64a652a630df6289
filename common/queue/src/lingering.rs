//! Reservations that are about to end: those whose last program has exited, as their
//! holders show or the kernel shows of these. The mark that a holder sets is on the lock.

use getgpu_linux::{Stat, procfs::fdinfo};
use getgpu_lock::{
    HolderArgs, HolderProcess, Level, LockFile, OfdLock, Side, Span, occupancy, ownership_proof,
};
use getgpu_model::{Device, Failure, Units};

/// The holders of the own user whose reservations may end soon, and free something on this level
/// then: those inside a reservation hold its device for that one, which stays.
pub(super) fn own_that_may_end_soon(lock_file: &LockFile, level: Level) -> Vec<HolderProcess> {
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
/// processor, and may then find other programs of its reservation. Its pidfds show it, from Linux
/// 5.5; before, an exit that its parent has noticed is not shown, and this is false.
pub(super) fn has_outlived_its_programs(holder: &HolderProcess) -> bool {
    // One that cannot be looked at (hidepid, another pid namespace) may still run.
    let has_exited = |pid: &i32| *pid < 0 || Stat::read(*pid).is_some_and(|stat| !stat.alive());
    let awaited = fdinfo::pidfds(&holder.pid.to_string());
    !awaited.is_empty() && awaited.iter().all(has_exited)
}

/// The units of a device that holders show as lingering.
///
/// # Errors
///
/// The lock file cannot be read.
pub(super) fn marked_units(
    probe: &OfdLock,
    level: Level,
    device: &Device,
) -> Result<Units, Failure> {
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
pub(super) fn own_units(
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
    use crate::private_lock::private_lock;

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
