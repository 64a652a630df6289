//! Who else has a part of a device, as the lock shows it.

use getgpu_linux::procfs::namespaces;
use getgpu_lock::{Level, Occupancy, OfdLock, Side, Span, holders};
use getgpu_model::{Device, Failure};

/// Whether another user has some of the device: MPS daemons are one user's.
pub(super) fn has_other_users(probe: &OfdLock, span: Span, user: u32) -> Result<bool, Failure> {
    let own = namespaces::host_uid(user);
    for side in [Side::Lease, Side::Reservation] {
        let uids = holders::uids(probe, span, side)?;
        if uids.iter().any(|uid| *uid != own) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a part of the device is confirmed.
pub(super) fn shared(probe: &OfdLock, device: &Device) -> Result<bool, Failure> {
    let used = Occupancy::read(probe, Level::Outer, Span::of(&device.uuid))?;
    Ok(!used.confirmed.is_empty())
}
