//! What is in use on devices and GPUs, for the policies whose order depends on it. A policy that
//! goes by something else reads it here.

use std::collections::{HashMap, HashSet};

use super::chooser::Chooser;
use getgpu_lock::{Occupancy, OfdLock, Span};
use getgpu_model::{Activity, Detail, Device, Failure, Inventory, UNITS};

impl Chooser<'_, '_> {
    /// What is in use on each GPU, for the policies that ask: on the lock, or by programs
    /// that never asked.
    pub(super) fn gpu_loads(
        &mut self,
        probe: &OfdLock,
        pool: &[&Device],
        inventory: &Inventory,
    ) -> Result<HashMap<u32, i64>, Failure> {
        let mut loads = HashMap::new();
        if !self.preference().by_gpu_load() {
            return Ok(loads);
        }
        // What happens on a GPU that cannot be chosen decides nothing, and it may not answer.
        let pool: HashSet<u32> = pool.iter().map(|device| device.gpu).collect();
        let devices = inventory.devices.iter();
        for device in devices.filter(|device| pool.contains(&device.gpu)) {
            let mut load = self.load(probe, device)?;
            if load == 0 && self.request.cover.is_none() {
                let usage = self.node.nvml()?.usage(device, Detail::Uuid)?;
                load = UNITS * i64::from(usage.activity != Activity::Idle);
            }
            *loads.entry(device.gpu).or_default() += load;
        }
        Ok(loads)
    }

    /// Units of the device that are in use on the lock.
    pub(super) fn load(&self, probe: &OfdLock, device: &Device) -> Result<i64, Failure> {
        let used = Occupancy::read(probe, self.request.level(), Span::of(&device.uuid))?;
        Ok(used.all().count())
    }
}
