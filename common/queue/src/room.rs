//! Which devices have room on the lock for a request, as a waiter and a call that finds waiters see it. Nothing is
//! taken, and NVML is not asked.

use super::Availability;
use getgpu_choose::{Owned, Rejected, choice::device_claim};
use getgpu_lock::OfdLock;
use getgpu_model::{Device, Failure};

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
