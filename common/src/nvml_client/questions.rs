//! What a session is asked: each question, and what its answer means. NVML may not answer
//! for one GPU or device; that ends no session, and reads as none or unknown.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::wire::Request;
use super::{Client, broken};
use crate::cpus::CpuSet;
use crate::error::Failure;
use crate::ident::Uuid;
use crate::inventory::{Detail, Device, Gauge, Gpu, Inventory, Usage};

impl Client {
    /// nvmlDeviceGetCount_v2
    pub fn count(&mut self) -> Result<u32, Failure> {
        self.ask(&Request::Count)?
    }

    /// One GPU's MIG mode and slots; none if NVML does not answer for it.
    pub fn gpu(&mut self, gpu: u32) -> Result<Option<Gpu>, Failure> {
        Ok(self.ask(&Request::Gpu { gpu })?.ok())
    }

    /// One device; none if the slot is empty, or NVML does not answer for it.
    pub fn device(
        &mut self,
        gpu: u32,
        slot: Option<u32>,
        detail: Detail,
    ) -> Result<Option<Device>, Failure> {
        let told = self.ask(&Request::Device { gpu, slot, detail })?;
        Ok(told.unwrap_or_default())
    }

    /// Who uses a device; unknown if NVML does not answer for it.
    pub fn usage(&mut self, uuid: &Uuid, detail: Detail) -> Result<Usage, Failure> {
        Ok(self.usages(vec![uuid.clone()], detail)?.remove(0))
    }

    /// Who uses each of these devices, in one question: for each device one costs a
    /// listing more than NVML does.
    pub fn usages(&mut self, devices: Vec<Uuid>, detail: Detail) -> Result<Vec<Usage>, Failure> {
        let wanted = devices.len();
        let usages: Vec<Result<Usage, Failure>> =
            self.ask(&Request::Usages { devices, detail })??;
        if usages.len() != wanted {
            return Err(broken("it did not answer for each device"));
        }
        Ok(usages.into_iter().map(known).collect())
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
                gpu.insert(self.affinity(&device.uuid)?.ok());
            }
            device.cpus = asked.get(&device.gpu).cloned().flatten();
        }
        Ok(())
    }

    /// Which CPUs are near the GPU of a device, or why NVML does not tell.
    pub fn affinity(&mut self, uuid: &Uuid) -> Result<Result<CpuSet, Failure>, Failure> {
        self.ask(&Request::Cpus { uuid: uuid.clone() })
    }

    /// What GPUs do now, in the order of their indices here.
    pub fn gauges(&mut self, gpus: &[u32], gauge: Gauge) -> Result<Vec<Option<u32>>, Failure> {
        let gpus = gpus.to_vec();
        self.ask(&Request::Gauges { gpus, gauge })?
    }

    /// Everything on the node.
    pub fn scan(&mut self, detail: Detail) -> Result<Inventory, Failure> {
        self.ask(&Request::Scan { detail })?
    }
}

fn known(told: Result<Usage, Failure>) -> Usage {
    told.unwrap_or_else(|failure| Usage::unknown(failure.message))
}
