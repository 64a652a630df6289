//! What is about to become free, and how long a call that finds too few devices waits for it: reservations
//! whose last program has exited, as their holders mark on the lock or the kernel shows of these. So a loop of
//! short programs goes on although no reservation is handed from one call to the next.

use std::time::Duration;

use getgpu_choose::{
    Owned,
    choice::{cap, device_claim},
};
use getgpu_linux::{
    Stat,
    procfs::{fdinfo, namespaces},
};
use getgpu_lock::{
    HolderProcess, Level, LockFile, Occupancy, OfdLock, Side, Span, holders, ownership_proof,
};
use getgpu_model::{Device, Failure, Inventory, Units};

/// How much longer than `linger` a call waits for a lingering reservation.
const MARGIN: Duration = Duration::from_millis(500);
/// How long a call waits for a plain reservation of its user that does not linger: its holder
/// may be about to see a program for the first time, or one that exits.
pub(crate) const NOTICE: Duration = Duration::from_millis(300);
/// How long it waits for one whose holder has not noticed yet that its programs have exited: on a
/// busy machine that takes its time, and one that was stopped never does.
const UNNOTICED: Duration = Duration::from_millis(2500);

/// How long a call waits for devices that are about to become free; `None` if too few are. `linger`: how
/// long reservations outlast their programs.
///
/// # Errors
///
/// The lock file cannot be read.
pub(crate) fn time(
    lock_file: &LockFile,
    probe: &OfdLock,
    request: &Owned,
    inventory: &Inventory,
    linger: Duration,
) -> Result<Option<Duration>, Failure> {
    let soon = Soon {
        lock_file,
        probe,
        request,
        inventory,
        is_over_limit: cap::over(lock_file, probe, inventory, request)?.is_some(),
    };
    if soon.is_enough(&[])? {
        return Ok(Some(linger + MARGIN));
    }
    let mut own = own_that_may_end_soon(lock_file, request.level());
    if own.is_empty() || !soon.is_enough(&own)? {
        return Ok(None);
    }
    own.retain(has_outlived_its_programs);
    let is_unnoticed = !own.is_empty() && soon.is_enough(&own)?;
    Ok(Some(if is_unnoticed { UNNOTICED } else { NOTICE }))
}

/// The question whether a request could be served soon.
struct Soon<'a> {
    lock_file: &'a LockFile,
    probe: &'a OfdLock,
    request: &'a Owned,
    inventory: &'a Inventory,
    /// Whether the user is at `max_per_user`. Then any device that the user gives up counts, whether
    /// or not the request could use it.
    is_over_limit: bool,
}

impl Soon<'_> {
    /// Whether the request could be served as soon as what lingers has ended, and what these
    /// holders have.
    fn is_enough(&self, ending: &[HolderProcess]) -> Result<bool, Failure> {
        let (mut room, mut soon) = (0, 0);
        if self.is_over_limit {
            for device in &self.inventory.devices {
                soon += usize::from(!self.leaving(ending, device)?.is_empty());
            }
            return Ok(soon > 0);
        }
        for device in self.request.filter.pool(self.inventory) {
            let (probe, request) = (self.probe, self.request);
            if device_claim::units(probe, request, device)?.is_ok() {
                room += 1;
            } else {
                let leaving = self.leaving(ending, device)?;
                let fits = device_claim::fits_without(probe, request, device, &leaving)?;
                soon += usize::from(fits);
            }
        }
        Ok(soon > 0 && room + soon >= self.request.count)
    }

    /// The units of a device that holders mark as lingering, and those that these holders have.
    fn leaving(&self, ending: &[HolderProcess], device: &Device) -> Result<Units, Failure> {
        let (span, level) = (Span::of(&device.uuid), self.request.level());
        let marks = match level {
            Level::Outer => span.lingering(),
            Level::Inner { .. } => span.inner_lingering(),
        };
        let mut leaving = Occupancy::of(self.probe, &[marks])?.confirmed;
        if self.is_over_limit && !leaving.is_empty() {
            let own = namespaces::host_uid(nix::unistd::geteuid().as_raw());
            if !holders::uids(self.probe, span, Side::Reservation)?.contains(&own) {
                leaving = Units::default();
            }
        }
        let region = span.of_side(Side::Reservation, level);
        let of_device = |one: &&HolderProcess| one.args.devices.contains(&device.uuid);
        for holder in ending.iter().filter(of_device) {
            let locks = ownership_proof::locks_of(holder.pid);
            leaving = leaving.union(&ownership_proof::shown_in(&locks, self.lock_file, region));
        }
        if leaving.is_empty() {
            return Ok(leaving);
        }
        // A lease around a reservation, or on it, stays.
        let leases = Occupancy::of(self.probe, &[span.of_side(Side::Lease, level)])?;
        Ok(leaving.difference(&leases.confirmed))
    }
}

/// The holders of the own user whose reservations may end soon, and free something on this level
/// then: one inside another has its device for that one, which stays.
fn own_that_may_end_soon(lock_file: &LockFile, level: Level) -> Vec<HolderProcess> {
    let uid = nix::unistd::geteuid().as_raw();
    let own = ownership_proof::reservations(lock_file, Some(uid), &|_| true);
    let is_inside = |one: &HolderProcess| {
        level == Level::Outer
            && ownership_proof::is_inside_another(lock_file, one.pid, &one.args.devices)
    };
    let (mut inside, mut own): (Vec<_>, Vec<_>) = own.into_iter().partition(is_inside);
    inside.retain(|one| {
        let mut around = own.iter().flat_map(|around| &around.args.devices);
        !around.any(|device| one.args.devices.contains(device))
    });
    own.append(&mut inside);
    own.retain(|one| one.args.is_plain() || one.args.is_ending());
    own
}

/// Whether a holder waits for processes that have all exited: it notices that as soon as it has a
/// processor, and may then find other programs of its reservation. Its pidfds show it, from Linux
/// 5.5; before, an exit that its parent has noticed is not shown, and this is false.
fn has_outlived_its_programs(holder: &HolderProcess) -> bool {
    // One that cannot be looked at (hidepid, another pid namespace) may still run.
    let has_exited = |pid: &i32| *pid < 0 || Stat::read(*pid).is_some_and(|stat| !stat.alive());
    let awaited = fdinfo::pidfds(&holder.pid.to_string());
    !awaited.is_empty() && awaited.iter().all(has_exited)
}
