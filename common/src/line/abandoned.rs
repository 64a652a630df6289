//! Devices that nobody in the line takes: those who stand there have all been stopped, and must not keep others from a free device.
//! A head that is alive shows itself, since it tries every device that has room once a second.

use std::time::{Duration, Instant};

use crate::choice::attempt;
use crate::error::Failure;
use crate::ident::Uuid;
use crate::inventory::{Device, Inventory};
use crate::lock::Description;
use crate::request::Request;

/// So long a device has room and is not even tried before it counts as left alone.
const ALONE: Duration = Duration::from_millis(1500);
/// Between two looks: a try lasts for some milliseconds at least, since NVML is asked meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// The devices of the pool that are left alone, if they are as many as are wanted; found out in a second and a half, or sooner if there are none.
pub fn devices(probe: &Description, request: &Request, inventory: &Inventory) -> Result<Vec<Uuid>, Failure> {
    let mut left: Vec<&Device> = request.filter.pool(inventory).collect();
    let began = Instant::now();
    loop {
        let mut alone = Vec::new();
        for device in left {
            if attempt::units(probe, request, device)?.is_ok() {
                alone.push(device);
            }
        }
        if alone.len() < request.count {
            return Ok(Vec::new());
        }
        if began.elapsed() >= ALONE {
            return Ok(alone.into_iter().map(|device| device.uuid.clone()).collect());
        }
        left = alone;
        std::thread::sleep(PAUSE);
    }
}
