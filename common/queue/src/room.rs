//! Which devices have room on the lock for a request, as a waiter and a call that finds waiters see it. Nothing is
//! taken, and NVML is not asked.

use super::Availability;
use getgpu_choose::{Owned, Rejected, choice::device_claim};
use getgpu_lock::{LockFile, OfdLock, kept};
use getgpu_model::{Device, Failure, Inventory};

/// The request, which takes what is kept if the waiter that it is kept for has been stopped.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn past_stopped_keeper(
    lock_file: &LockFile,
    probe: &OfdLock,
    request: &Owned,
    inventory: &Inventory,
) -> Result<Owned, Failure> {
    let found = availability(probe, request, request.filter.pool(inventory))?;
    let is_past = found.suffices_with_kept(request.count) && kept::has_stopped(lock_file, probe)?;
    Ok(request.taking_kept(is_past))
}

/// Which of these devices have room on the lock now for the request.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn availability<'d>(
    probe: &OfdLock,
    request: &Owned,
    devices: impl Iterator<Item = &'d Device>,
) -> Result<Availability, Failure> {
    let mut availability = Availability::default();
    for device in devices {
        match device_claim::units(probe, request, device)? {
            Ok(_) => availability.free.push(device.uuid.clone()),
            Err(Rejected::Tentative) => {
                availability.tentative.push(device.uuid.clone());
            }
            Err(Rejected::Kept) => availability.kept += 1,
            Err(_) => {}
        }
    }
    Ok(availability)
}
