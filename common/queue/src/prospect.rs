//! What a call that finds too few free devices waits for, and how long: for reservations that
//! linger or are about to, so that a loop of short programs goes on although no reservation is
//! handed from one call to the next.

use std::time::Duration;

use super::lingering::{has_outlived_its_programs, marked_units, own_that_may_end_soon, own_units};
use getgpu_choose::{Owned, choice::device_claim};
use getgpu_linux::procfs::namespaces;
use getgpu_lock::{HolderProcess, Level, LockFile, OfdLock, Side, Span, holders};
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

    /// Whether the request could be served as soon as lingering reservations have ended.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub(crate) fn of(
        lock_file: &LockFile,
        probe: &OfdLock,
        request: &Owned,
        inventory: &Inventory,
    ) -> Result<Self, Failure> {
        let marked = |device: &Device| marked_units(probe, request.level(), device);
        if is_enough(probe, request, inventory, &marked)? {
            return Ok(Self::Lingering);
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
            return Ok(Self::None);
        }
        own.retain(has_outlived_its_programs);
        Ok(if with(&own)? {
            Self::Unnoticed
        } else {
            Self::Possible
        })
    }

    /// The same for a user who holds as many devices as the site allows: only the user's own
    /// reservations count, on whatever device.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub(crate) fn within_limit(
        lock_file: &LockFile,
        probe: &OfdLock,
        inventory: &Inventory,
    ) -> Result<Self, Failure> {
        let host_uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
        for device in &inventory.devices {
            let span = Span::of(&device.uuid);
            if !marked_units(probe, Level::Outer, device)?.is_empty()
                && holders::uids(probe, span, Side::Reservation)?.contains(&host_uid)
            {
                return Ok(Self::Lingering);
            }
        }
        let soon = own_that_may_end_soon(lock_file, Level::Outer);
        Ok(if soon.iter().any(has_outlived_its_programs) {
            Self::Unnoticed
        } else if soon.is_empty() {
            Self::None
        } else {
            Self::Possible
        })
    }
}

/// Whether as many devices as the request wants have room, some of them only when the
/// units that `leaving` gives are free.
fn is_enough(
    probe: &OfdLock,
    request: &Owned,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A stopped holder never marks its reservation, whatever `linger` is.
    #[test]
    fn only_what_is_marked_is_waited_for_as_long_as_it_lingers() {
        let linger = Duration::from_secs(60);
        assert_eq!(Prospect::Unnoticed.time(linger), UNNOTICED);
        assert_eq!(Prospect::Lingering.time(linger), linger + MARGIN);
    }
}
