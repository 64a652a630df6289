//! A search on a node that is worked on: what may pass is borne with, and only what the request or
//! the settings make impossible ends the wait.

use std::time::Instant;

use super::Search;
use crate::Name;
use getgpu_choose::pool;
use getgpu_model::{Failure, Inventory, Kind, Uuid};

impl<N: Name> Search<'_, '_, N> {
    /// Whether a list has as many devices as are wanted.
    pub(super) fn suffices(&self, inventory: &Inventory) -> Result<(), Failure> {
        pool::candidates(&self.request.filter, inventory, self.request.count).map(drop)
    }

    /// Whether the node may be as it was before, without anything that the request or the settings
    /// would have to change for.
    fn may_pass(&self, failure: &Failure) -> bool {
        match failure.kind {
            Kind::Nvml | Kind::NoDriver | Kind::NoUsableGpu => true,
            Kind::NoDevice => {
                self.suffices(&self.inventory).is_err() && self.suffices(&self.sufficient).is_ok()
            }
            _ => false,
        }
    }

    /// Bears with a failed attempt: nothing is free now, and the node is listed anew.
    pub(super) fn bear(&mut self, failure: Failure) -> Result<(), Failure> {
        if !self.may_pass(&failure) {
            return Err(failure);
        }
        let wait = self.node.settings().longest_wait();
        self.relist_at = self.tolerance.bear(failure, wait, Instant::now())?;
        Ok(())
    }

    /// All devices of the last list.
    pub(super) fn all(&self) -> Vec<Uuid> {
        let devices = self.inventory.devices.iter();
        devices.map(|device| device.uuid.clone()).collect()
    }
}
