//! What a session is asked: each question, and what its answer means. NVML may not answer
//! for one GPU or device; that ends no session, and reads as none or unknown.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::wire::{Answer, Request};
use super::{Client, Worker, nonsense};
use crate::cpus::CpuSet;
use crate::error::Failure;
use crate::ident::Uuid;
use crate::inventory::{Detail, Device, Gpu, Inventory, Usage};

/// Which CPUs are near a device.
pub enum Affinity {
    Near(CpuSet),
    /// NVML would not tell, which does not end the session.
    Unknown(Failure),
}

impl<W: Worker> Client<W> {
    /// nvmlDeviceGetCount_v2
    pub fn count(&mut self) -> Result<u32, Failure> {
        match self.ask(&Request::Count)? {
            Answer::Count(count) => Ok(count),
            other => Err(nonsense(&other)),
        }
    }

    /// One GPU's MIG mode and slots; none if NVML does not answer for it.
    pub fn gpu(&mut self, gpu: u32) -> Result<Option<Gpu>, Failure> {
        match self.tell(&Request::Gpu { gpu })? {
            Answer::Gpu(gpu) => Ok(Some(gpu)),
            Answer::Failed(_) => Ok(None),
            other => Err(nonsense(&other)),
        }
    }

    /// One device; none if the slot is empty, or NVML does not answer for it.
    pub fn device(
        &mut self,
        gpu: u32,
        slot: Option<u32>,
        detail: Detail,
    ) -> Result<Option<Device>, Failure> {
        match self.tell(&Request::Device { gpu, slot, detail })? {
            Answer::Device(device) => Ok(device),
            Answer::Failed(_) => Ok(None),
            other => Err(nonsense(&other)),
        }
    }

    /// Who uses a device; unknown if NVML does not answer for it.
    pub fn usage(&mut self, uuid: &Uuid, detail: Detail) -> Result<Usage, Failure> {
        let uuid = uuid.clone();
        match self.tell(&Request::Usage { uuid, detail })? {
            Answer::Usage(usage) => Ok(usage),
            Answer::Failed(failure) => Ok(Usage::unknown(failure.message)),
            other => Err(nonsense(&other)),
        }
    }

    /// Who uses each of these devices, in one question: for each device one costs a
    /// listing more than NVML does.
    pub fn usages(&mut self, devices: &[Device], detail: Detail) -> Result<Vec<Usage>, Failure> {
        let request = Request::Usages {
            devices: devices.iter().map(|device| device.uuid.clone()).collect(),
            detail,
        };
        match self.ask(&request)? {
            Answer::Usages(usages) if usages.len() == devices.len() => Ok(usages
                .into_iter()
                .map(|usage| usage.unwrap_or_else(|failure| Usage::unknown(failure.message)))
                .collect()),
            other => Err(nonsense(&other)),
        }
    }

    /// Notes of each device which CPUs are near its GPU, where NVML tells. A GPU is asked
    /// once.
    pub fn near<'d>(
        &mut self,
        devices: impl IntoIterator<Item = &'d mut Device>,
    ) -> Result<(), Failure> {
        let mut asked: HashMap<u32, Option<CpuSet>> = HashMap::new();
        for device in devices {
            if let Entry::Vacant(gpu) = asked.entry(device.gpu) {
                gpu.insert(match self.affinity(&device.uuid)? {
                    Affinity::Near(cpus) => Some(cpus),
                    Affinity::Unknown(_) => None,
                });
            }
            device.cpus = asked.get(&device.gpu).cloned().flatten();
        }
        Ok(())
    }

    /// Which CPUs are near the GPU of a device.
    pub fn affinity(&mut self, uuid: &Uuid) -> Result<Affinity, Failure> {
        match self.tell(&Request::Cpus { uuid: uuid.clone() })? {
            Answer::Cpus(cpus) => Ok(Affinity::Near(cpus)),
            Answer::Failed(failure) => Ok(Affinity::Unknown(failure)),
            other => Err(nonsense(&other)),
        }
    }

    /// Everything on the node.
    pub fn scan(&mut self, detail: Detail) -> Result<Inventory, Failure> {
        match self.ask(&Request::Scan { detail })? {
            Answer::Scan(inventory) => Ok(inventory),
            other => Err(nonsense(&other)),
        }
    }
}
