//! One NVML session: walks GPUs and MIG devices, and asks for no more than the detail
//! wanted. A GPU is attached at the first touch, which can take seconds,
//! so handles are kept for the session and touched on demand.

use std::collections::HashMap;
use std::rc::Rc;

use nvml_wrapper::{Device as Handle, Nvml};

use super::answers::{has_mig, is_usable, mig_slots, not_a_uuid, profile_of};
use super::fault::{self, Fault, ask, with_retries};
use super::{device_files, memory, raw};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Detail, Device, Gpu, Inventory, Memory};

/// More MIG devices than this on one GPU are a library gone wrong; the largest GPU has 8
/// compute instances in 7 instances.
const MOST_SLOTS: u32 = 64;
/// More GPUs than this in one node likewise.
const MOST_GPUS: u32 = 1024;

/// The index of a GPU, and of a MIG device on it; no second one for the whole GPU.
pub(super) type Place = (u32, Option<u32>);

pub(super) struct Session<'n> {
    pub(super) nvml: &'n Nvml,
    handles: HashMap<Place, Rc<Handle<'n>>>,
    /// Where the devices are that were found.
    places: HashMap<Uuid, Place>,
    uuids: HashMap<u32, Uuid>,
    minors: HashMap<u32, Option<u32>>,
    /// What was told of MIG devices and does not change while the session lives.
    instances: HashMap<(u32, u32), (u32, u32)>,
    profiles: HashMap<(u32, u32), Option<String>>,
    /// The memory that a scan was told, for the question about the use that follows it.
    memories: HashMap<Place, Memory>,
    nodes: bool,
}

impl<'n> Session<'n> {
    pub(super) fn new(nvml: &'n Nvml) -> Self {
        Self {
            nvml,
            handles: HashMap::new(),
            places: HashMap::new(),
            uuids: HashMap::new(),
            minors: HashMap::new(),
            instances: HashMap::new(),
            profiles: HashMap::new(),
            memories: HashMap::new(),
            nodes: device_files::exist(),
        }
    }

    /// nvmlDeviceGetCount_v2: GPUs, also those we may not open.
    pub(super) fn count(&self) -> Result<u32, Fault> {
        let count = ask("DeviceGetCount", || self.nvml.device_count())?;
        Ok(count.min(MOST_GPUS))
    }

    /// The handle of a GPU, or of the MIG device in a slot of it, asked for once in a session.
    pub(super) fn handle(&mut self, gpu: u32, slot: Option<u32>) -> Result<Rc<Handle<'n>>, Fault> {
        if let Some(handle) = self.handles.get(&(gpu, slot)) {
            return Ok(handle.clone());
        }
        let nvml = self.nvml;
        let handle = match slot {
            None => ask("DeviceGetHandleByIndex", || nvml.device_by_index(gpu))?,
            Some(slot) => {
                let parent = self.handle(gpu, None)?;
                let call = "DeviceGetMigDeviceHandleByIndex";
                ask(call, || parent.mig_device_by_index(slot))?
            }
        };
        let handle = Rc::new(handle);
        self.handles.insert((gpu, slot), handle.clone());
        Ok(handle)
    }

    /// One GPU: its MIG mode, and more by `detail`.
    pub(super) fn gpu(&mut self, index: u32, detail: Detail) -> Result<Gpu, Fault> {
        let handle = self.handle(index, None)?;
        let mig = has_mig(&handle)?;
        let slots = if mig { mig_slots(&handle)? } else { 0 };
        let uuid = match detail {
            Detail::Uuid => None,
            _ => Some(self.gpu_uuid(index, &handle)?),
        };
        let full = Some(&*handle).filter(|_| detail >= Detail::Full);
        Ok(Gpu {
            index,
            uuid,
            name: full.and_then(|gpu| raw::name(self.nvml, gpu).ok()),
            pci_bus_id: full.and_then(|gpu| raw::pci_bus_id(self.nvml, gpu).ok()),
            mig,
            slots: slots.min(MOST_SLOTS),
            usable: self
                .minor(index, &handle)
                .is_none_or(device_files::gpu_usable),
        })
    }

    /// The minor number of a GPU's node, asked only where there are nodes.
    fn minor(&mut self, gpu: u32, handle: &Handle<'n>) -> Option<u32> {
        if !self.nodes {
            return None;
        }
        *self
            .minors
            .entry(gpu)
            .or_insert_with(|| handle.minor_number().ok())
    }

    /// The UUID of a GPU, asked once in a session, since each of its MIG devices wants
    /// it.
    fn gpu_uuid(&mut self, gpu: u32, handle: &Handle<'n>) -> Result<Uuid, Fault> {
        if let Some(known) = self.uuids.get(&gpu) {
            return Ok(known.clone());
        }
        let uuid = self.uuid(handle)?;
        self.uuids.insert(gpu, uuid.clone());
        Ok(uuid)
    }

    fn uuid(&self, handle: &Handle<'n>) -> Result<Uuid, Fault> {
        let text = with_retries(|| raw::uuid(self.nvml, handle))?;
        Uuid::parse(&text).ok_or_else(|| not_a_uuid(&text))
    }

    /// The handle of a device; `None` for an empty slot, or one that may not be asked about.
    fn filled(&mut self, gpu: u32, slot: Option<u32>) -> Result<Option<Rc<Handle<'n>>>, Fault> {
        match self.handle(gpu, slot) {
            Ok(handle) => Ok(Some(handle)),
            Err(fault)
                if slot.is_some() && (fault.empty_slot() || fault.code == fault::NO_PERMISSION) =>
            {
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// One device; `None` for an empty slot.
    pub(super) fn device(
        &mut self,
        gpu: u32,
        slot: Option<u32>,
        detail: Detail,
    ) -> Result<Option<Device>, Fault> {
        let Some(handle) = self.filled(gpu, slot)? else {
            return Ok(None);
        };
        let uuid = self.uuid(&handle)?;
        // A UUID twice is a library gone wrong: the first place stands.
        self.places.entry(uuid.clone()).or_insert((gpu, slot));
        let parent = self.handle(gpu, None)?;
        let gpu_uuid = match slot {
            None => Some(uuid.clone()),
            Some(_) if detail >= Detail::Place => self.gpu_uuid(gpu, &parent).ok(),
            Some(_) => None,
        };
        let minor = self.minor(gpu, &parent);
        let placed = slot.filter(|_| detail >= Detail::Place || minor.is_some());
        let instance = placed.and_then(|slot| self.instance(gpu, slot, &handle));
        let sized = detail >= Detail::Size;
        let profile = slot
            .filter(|_| sized)
            .and_then(|slot| self.profile(gpu, slot, &handle));
        let memory = sized.then(|| self.size(gpu, slot, &handle)).flatten();
        Ok(Some(Device {
            uuid,
            gpu,
            slot,
            gpu_uuid,
            instance,
            profile,
            memory,
            usable: minor.is_none_or(|minor| is_usable(minor, instance)),
            cpus: None,
        }))
    }

    /// Where the device of a UUID is. One that was not found in this session is looked for
    /// on its GPU, which touches no other.
    pub(super) fn place(&mut self, uuid: &Uuid) -> Result<Place, Fault> {
        if let Some(place) = self.places.get(uuid) {
            return Ok(*place);
        }
        let gpu = self.gpu_of(uuid)?;
        if !uuid.is_mig() {
            return Ok((gpu, None));
        }
        let mut sick = None;
        for slot in 0..self.gpu(gpu, Detail::Uuid)?.slots {
            match self.uuid_of_slot(gpu, slot) {
                Ok(Some(found)) if found == *uuid => {
                    self.places.insert(uuid.clone(), (gpu, Some(slot)));
                    return Ok((gpu, Some(slot)));
                }
                Ok(_) => {}
                // A sick device in another slot says nothing of this one.
                Err(fault) => sick = Some(fault),
            }
        }
        Err(sick.unwrap_or_else(|| {
            let why = format!("{uuid} is not among the devices of GPU {gpu}");
            Fault::unusable("DeviceGetMigDeviceHandleByIndex", why)
        }))
    }

    fn uuid_of_slot(&mut self, gpu: u32, slot: u32) -> Result<Option<Uuid>, Fault> {
        let handle = self.filled(gpu, Some(slot))?;
        handle.map(|handle| self.uuid(&handle)).transpose()
    }

    /// The index of the GPU that a device is on.
    pub(super) fn gpu_of(&self, uuid: &Uuid) -> Result<u32, Fault> {
        if let Some((gpu, _)) = self.places.get(uuid) {
            return Ok(*gpu);
        }
        let nvml = self.nvml;
        let mut gpu = ask("DeviceGetHandleByUUID", || {
            nvml.device_by_uuid(uuid.as_str())
        })?;
        if uuid.is_mig() {
            let call = "DeviceGetDeviceHandleFromMigDeviceHandle";
            gpu = ask(call, || gpu.mig_parent_device())?;
        }
        ask("DeviceGetIndex", || gpu.index())
    }

    /// GPU instance and compute instance of a MIG device, asked once in a session.
    pub(super) fn instance(
        &mut self,
        gpu: u32,
        slot: u32,
        handle: &Handle<'n>,
    ) -> Option<(u32, u32)> {
        let known = self.instances.get(&(gpu, slot)).copied();
        let instance = known.or_else(|| raw::instance(self.nvml, handle).ok())?;
        self.instances.insert((gpu, slot), instance);
        Some(instance)
    }

    /// The profile of a MIG device, asked once in a session.
    pub(super) fn profile(&mut self, gpu: u32, slot: u32, handle: &Handle<'n>) -> Option<String> {
        let nvml = self.nvml;
        let profile = self.profiles.entry((gpu, slot));
        profile.or_insert_with(|| profile_of(nvml, handle)).clone()
    }

    /// Bytes of a device's memory; the question about its use need not ask for them
    /// again.
    fn size(&mut self, gpu: u32, slot: Option<u32>, handle: &Handle<'n>) -> Option<u64> {
        match memory::memory(self.nvml, handle) {
            Ok(memory) => {
                self.memories.insert((gpu, slot), memory);
                Some(memory.total)
            }
            Err(_) => memory::by_attributes(handle),
        }
    }

    /// What the last scan was told of a device's memory, once.
    pub(super) fn scanned_memory(&mut self, gpu: u32, slot: Option<u32>) -> Option<Memory> {
        self.memories.remove(&(gpu, slot))
    }

    /// All GPUs and devices; what does not answer becomes a problem and stops nothing
    /// else.
    pub(super) fn scan(&mut self, detail: Detail) -> Result<Inventory, Fault> {
        let mut found = Inventory::default();
        if detail >= Detail::Size {
            found.driver = raw::driver_version(self.nvml).ok();
        }
        for index in 0..self.count()? {
            let gpu = match self.gpu(index, detail) {
                Ok(gpu) => gpu,
                Err(fault) => {
                    found.problems.push(format!("GPU {index}: {fault}"));
                    continue;
                }
            };
            self.scan_gpu(&gpu, detail, &mut found);
            found.gpus.push(gpu);
        }
        Ok(found)
    }

    /// Adds the devices of one GPU.
    fn scan_gpu(&mut self, gpu: &Gpu, detail: Detail, found: &mut Inventory) {
        let index = gpu.index;
        let slots: Vec<Option<u32>> = if gpu.mig {
            (0..gpu.slots).map(Some).collect()
        } else {
            vec![None]
        };
        for slot in slots {
            match self.device(index, slot, detail) {
                Ok(None) => {}
                // A UUID twice is a library gone wrong: the second one is never handed
                // out.
                Ok(Some(device)) if found.devices.iter().any(|known| known.uuid == device.uuid) => {
                    let problem = format!("GPU {index}: {} is listed twice", device.uuid);
                    found.problems.push(problem);
                }
                Ok(Some(device)) => found.devices.push(device),
                Err(fault) => {
                    let place = slot.map_or(String::new(), |slot| format!(" MIG device {slot}"));
                    found.problems.push(format!("GPU {index}{place}: {fault}"));
                }
            }
        }
    }
}
