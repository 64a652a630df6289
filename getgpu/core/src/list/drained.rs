//! GPUs that the site has excluded whole: a listing of a user's asks them nothing but their names, so that
//! one that hangs is waited for by root alone, who drains it and has to see what still runs there.

use getgpu_ask::{Allowing, Look, Node};
use getgpu_model::{Detail, Device, Failure, Inventory, Usage};
use getgpu_settings::{DeviceList, Settings, allowed};

/// Which devices are asked about.
#[derive(Debug)]
pub struct Drained {
    /// None: all are.
    excluded: Option<DeviceList>,
}

impl Allowing for Drained {
    fn allows(&self, device: &Device) -> bool {
        let excluded = self.excluded.as_ref();
        !excluded.is_some_and(|excluded| excluded.names(device))
    }
}

impl Drained {
    /// As the settings have it, for the user of this process.
    pub fn of(settings: &Settings) -> Self {
        let is_root = nix::unistd::geteuid().is_root();
        Self {
            excluded: (!is_root).then(|| allowed::excluded(settings)),
        }
    }

    /// What a listing asks of the node.
    pub fn look(&self) -> Look<'_> {
        Look {
            filter: Some(self),
            ..Look::from(Detail::Full)
        }
    }

    /// The use of each device, in their order; of one on a GPU that is left alone nothing is known.
    pub fn usages(
        &self,
        node: &mut Node<'_>,
        inventory: &Inventory,
    ) -> Result<Vec<Usage>, Failure> {
        let is_asked = |device: &&Device| {
            let mut of_gpu = inventory
                .devices
                .iter()
                .filter(|other| other.gpu == device.gpu);
            of_gpu.any(|other| self.allows(other))
        };
        let asked: Vec<&Device> = inventory.devices.iter().filter(is_asked).collect();
        let mut told = node.nvml()?.usages(&asked, Detail::Full)?.into_iter();
        let devices = inventory.devices.iter();
        let usages = devices.map(|device| is_asked(&device).then(|| told.next()).flatten());
        Ok(usages
            .map(|told| told.unwrap_or_else(Usage::idle))
            .collect())
    }
}
