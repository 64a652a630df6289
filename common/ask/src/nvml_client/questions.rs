//! What a session is asked: each question, and what its answer means. NVML may not answer
//! for one GPU or device; that ends no session, and reads as none or unknown.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;

use super::wire::{NvmlQuestion, NvmlRequest};
use super::{Client, broken};
use getgpu_model::{
    CpuSet, Detail, Device, Failure, Gauge, Gpu, GpuLinks, Health, LinkMap, Usage, Uuid,
};

impl Client<'_> {
    /// nvmlDeviceGetCount_v2
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn count(&mut self) -> Result<u32, Failure> {
        self.ask(&NvmlRequest::Count)?
    }

    /// One GPU's MIG mode and slots; none if NVML does not answer for it.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn gpu(&mut self, gpu: u32) -> Result<Option<Gpu>, Failure> {
        Ok(self.ask_gpu(gpu, &NvmlRequest::Gpu { gpu })?.ok())
    }

    /// One device; none if the slot is empty, or NVML does not answer for it.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn device(
        &mut self,
        gpu: u32,
        slot: Option<u32>,
        detail: Detail,
    ) -> Result<Option<Device>, Failure> {
        let told = self.ask_gpu(gpu, &NvmlRequest::Device { gpu, slot, detail })?;
        Ok(told.unwrap_or_default())
    }

    /// Who uses a device; unknown if NVML does not answer for it.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn usage(&mut self, device: &Device, detail: Detail) -> Result<Usage, Failure> {
        Ok(self.usages_on(device.gpu, &[device], detail)?.remove(0))
    }

    /// The same for a device of which only the UUID is known.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn usage_by_uuid(&mut self, uuid: &Uuid, detail: Detail) -> Result<Usage, Failure> {
        let devices = vec![uuid.into()];
        let told = self.ask(&NvmlRequest::Usages { devices, detail })??;
        Ok(usages(told, 1)?.remove(0))
    }

    /// Who uses each of these devices, in their order. The devices of one GPU that stand
    /// together are one question: for each device one costs a listing more than NVML does.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn usages(&mut self, devices: &[&Device], detail: Detail) -> Result<Vec<Usage>, Failure> {
        let mut all = Vec::with_capacity(devices.len());
        for of_gpu in devices.chunk_by(|one, other| one.gpu == other.gpu) {
            all.extend(self.usages_on(of_gpu[0].gpu, of_gpu, detail)?);
        }
        Ok(all)
    }

    fn usages_on(
        &mut self,
        gpu: u32,
        devices: &[&Device],
        detail: Detail,
    ) -> Result<Vec<Usage>, Failure> {
        let wanted = devices.len();
        let devices = devices
            .iter()
            .map(|device| NvmlQuestion::from(*device))
            .collect();
        match self.ask_gpu(gpu, &NvmlRequest::Usages { devices, detail })? {
            Ok(told) => usages(told, wanted),
            Err(failure) => Ok(vec![Usage::unknown(failure.message); wanted]),
        }
    }

    /// The health of a device, or why NVML does not answer for it.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn health(&mut self, device: &Device) -> Result<Result<Health, Failure>, Failure> {
        let request = NvmlRequest::Health {
            device: device.into(),
        };
        self.ask_gpu(device.gpu, &request)
    }

    /// Whether the driver stays attached to a GPU that no process uses; none if NVML does not
    /// tell.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn persistence(&mut self, gpu: u32) -> Result<Option<bool>, Failure> {
        let told = self.ask_gpu(gpu, &NvmlRequest::Persistence { gpu })?;
        Ok(told.unwrap_or_default())
    }

    /// How well each two of these GPUs are connected. One that does not answer is connected with none.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn links(&mut self, gpus: &[u32]) -> Result<LinkMap, Failure> {
        let mut told: Vec<GpuLinks> = Vec::with_capacity(gpus.len());
        for gpu in gpus.iter().copied() {
            let others = gpus.to_vec();
            let links = self.ask_gpu(gpu, &NvmlRequest::Links { gpu, others })?;
            told.push(links.unwrap_or_default());
        }
        Ok(LinkMap::new(gpus, &told))
    }

    /// Notes of each device which CPUs are near its GPU, where NVML tells. A GPU is asked
    /// once.
    pub(crate) fn near<'d>(
        &mut self,
        devices: impl IntoIterator<Item = &'d mut Device>,
    ) -> Result<(), Failure> {
        let mut asked: HashMap<u32, Option<CpuSet>> = HashMap::new();
        for device in devices {
            if let Entry::Vacant(gpu) = asked.entry(device.gpu) {
                let request = NvmlRequest::Cpus {
                    device: (&*device).into(),
                };
                gpu.insert(self.ask_gpu(device.gpu, &request)?.ok());
            }
            device.cpus = asked.get(&device.gpu).cloned().flatten();
        }
        Ok(())
    }

    /// Which CPUs are near the GPU of a device, or why NVML does not tell.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn affinity(&mut self, uuid: &Uuid) -> Result<Result<CpuSet, Failure>, Failure> {
        let device = uuid.into();
        self.ask(&NvmlRequest::Cpus { device })
    }

    /// How many percent of the time anything computes on each of these devices, in their order, if NVML
    /// tells it. The MIG devices of one GPU that stand together are watched together, for 150 ms, and
    /// each is what its GPU instance is.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn utilizations(&mut self, devices: &[&Device]) -> Result<Vec<Option<u32>>, Failure> {
        let mut all = Vec::with_capacity(devices.len());
        for of_gpu in devices.chunk_by(|one, other| one.gpu == other.gpu) {
            let devices = of_gpu.iter().map(|device| (*device).into()).collect();
            let request = NvmlRequest::Utilizations { devices };
            let told: Result<Vec<_>, Failure> = self.ask_gpu(of_gpu[0].gpu, &request)?;
            let mut told = told.unwrap_or_default();
            told.resize(of_gpu.len(), None);
            all.append(&mut told);
        }
        Ok(all)
    }

    /// Lets the programs in a cgroup have so many bytes of a GPU's memory, and no more, or why that
    /// cannot be. For root.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn limit_memory(
        &mut self,
        gpu: &Uuid,
        cgroup: PathBuf,
        bytes: u64,
    ) -> Result<Result<(), Failure>, Failure> {
        let device = gpu.into();
        self.ask(&NvmlRequest::LimitMemory {
            device,
            cgroup,
            bytes,
        })
    }

    /// How many bytes of a GPU's memory the programs in a cgroup can have, if that is limited, or why
    /// NVML does not tell. A GPU that was listed and hangs at it is left alone, as at any question.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn memory_limit(
        &mut self,
        gpu: impl Into<NvmlQuestion>,
        cgroup: PathBuf,
    ) -> Result<Result<Option<u64>, Failure>, Failure> {
        let device = gpu.into();
        let place = device.place;
        let request = NvmlRequest::MemoryLimit { device, cgroup };
        match place {
            Some((gpu, _)) => self.ask_gpu(gpu, &request),
            None => self.ask(&request),
        }
    }

    /// What GPUs do now, in the order of their indices here.
    ///
    /// # Errors
    ///
    /// The process that asks NVML cannot be started, has ended, or has not answered within its
    /// limit.
    pub fn gauges(&mut self, gpus: &[u32], gauge: Gauge) -> Result<Vec<Option<u32>>, Failure> {
        let mut told = Vec::with_capacity(gpus.len());
        for gpu in gpus.iter().copied() {
            let number = self.ask_gpu(gpu, &NvmlRequest::Gauge { gpu, gauge })?;
            told.push(number.unwrap_or_default());
        }
        Ok(told)
    }
}

fn usages(told: Vec<Result<Usage, Failure>>, wanted: usize) -> Result<Vec<Usage>, Failure> {
    if told.len() != wanted {
        return Err(broken("it did not answer for each device"));
    }
    let unknown = |failure: Failure| Usage::unknown(failure.message);
    let usages = told.into_iter();
    Ok(usages.map(|told| told.unwrap_or_else(unknown)).collect())
}
