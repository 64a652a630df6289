//! What getgpu and cudawrap add to a selection: a look at what was known, picked or
//! rejected, and the hint that helps a person on.

use getgpu_choose::{Chooser, Part, Rejected};
use getgpu_lock::OfdLock;
use getgpu_model::{Device, Failure, Inventory};

/// What keeps a call from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Others wait for the same devices.
    Queue,
    /// Too few devices of the pool are free.
    NoneFree,
}

/// What a program adds to a selection.
pub trait Observer {
    /// The whole node had to be looked at; `pool`: what of it may be chosen from.
    ///
    /// # Errors
    ///
    /// The program could not use as many of them as it is to have.
    fn known(&mut self, _inventory: &Inventory, _pool: &[&Device]) -> Result<(), Failure> {
        Ok(())
    }

    /// Devices were claimed.
    ///
    /// # Errors
    ///
    /// NVML does not tell of the others.
    fn picked(
        &mut self,
        _chooser: &mut Chooser<'_, '_>,
        _picked: &[Part],
        _inventory: &Inventory,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// No device was free: why, for each of the pool.
    fn rejected(&mut self, _rejected: &[(Device, Rejected)], _probe: &OfdLock) {}

    /// What a person can do about it.
    fn hint(&self, obstacle: Obstacle) -> String;
}
