//! One NVML session: walks GPUs and MIG devices, and asks for no more than the detail
//! wanted. A GPU is attached at the first touch, which can take seconds,
//! so handles are kept for the session and touched on demand.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use nvml_wrapper::{Device as Handle, Nvml};

use super::answers::{has_mig, is_usable, mig_slots, not_a_uuid, profile_of};
use super::fault::{self, Fault, ask, with_retries};
use super::{device_files, memory, raw};
use getgpu_ask::NvmlQuestion;
use getgpu_model::{Ailment, ComputeMode, Detail, Device, Gpu, GpuListing, Memory, Silent, Uuid};

/// More MIG devices than this on one GPU are a library gone wrong; the largest GPU has 8
/// compute instances in 7 instances.
const MOST_SLOTS: u32 = 64;
/// More GPUs than this in one node likewise.
const MOST_GPUS: u32 = 1024;

/// The index of a GPU, and of a MIG device on it; no second one for the whole GPU.
pub(super) type ListedPlace = (u32, Option<u32>);

pub(super) struct Session<'n> {
    pub(super) nvml: &'n Nvml,
    handles: HashMap<ListedPlace, Rc<Handle<'n>>>,
    /// Where the devices are that were found.
    places: HashMap<Uuid, ListedPlace>,
    uuids: HashMap<ListedPlace, Uuid>,
    /// Slots without a device.
    empty: HashSet<ListedPlace>,
    minors: HashMap<u32, Option<u32>>,
    mig: HashMap<u32, (bool, u32)>,
    /// What was told of MIG devices and does not change while the session lives.
    instances: HashMap<(u32, u32), (u32, u32)>,
    profiles: HashMap<(u32, u32), Option<String>>,
    /// The compute mode of GPUs, whose MIG devices have none of their own.
    pub(super) gpu_modes: HashMap<u32, Option<ComputeMode>>,
    /// What is wrong with GPUs that were asked.
    ailments: HashMap<u32, Vec<Ailment>>,
    /// The memory that a scan was told, for the question about the use that follows it.
    memories: HashMap<ListedPlace, Memory>,
    nodes: bool,
}

impl<'n> Session<'n> {
    pub(super) fn new(nvml: &'n Nvml) -> Self {
        Self {
            nvml,
            handles: HashMap::new(),
            places: HashMap::new(),
            uuids: HashMap::new(),
            empty: HashSet::new(),
            minors: HashMap::new(),
            mig: HashMap::new(),
            instances: HashMap::new(),
            profiles: HashMap::new(),
            gpu_modes: HashMap::new(),
            ailments: HashMap::new(),
            memories: HashMap::new(),
            nodes: device_files::exist(),
        }
    }

    /// nvmlDeviceGetCount_v2: GPUs, also those we may not open.
    pub(super) fn count(&self) -> Result<u32, Fault> {
        let count = ask("DeviceGetCount", || self.nvml.device_count())?;
        Ok(count.min(MOST_GPUS))
    }

    /// The version of the driver, if NVML tells it.
    pub(super) fn driver_version(&self) -> Option<String> {
        raw::driver_version(self.nvml).ok()
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
        // Its name first: that is known also of one that does not tell its mode.
        let uuid = match detail {
            Detail::Uuid => None,
            _ => Some(self.uuid((index, None), &handle)?),
        };
        let (mig, slots) = self.mig(index, &handle)?;
        let named = Some(&*handle).filter(|_| detail >= Detail::Name);
        let full = Some(&*handle).filter(|_| detail >= Detail::Full);
        Ok(Gpu {
            index,
            uuid,
            name: named.and_then(|gpu| raw::name(self.nvml, gpu).ok()),
            pci_bus_id: full.and_then(|gpu| raw::pci_bus_id(self.nvml, gpu).ok()),
            mig,
            slots: slots.min(MOST_SLOTS),
            usable: self
                .minor(index, &handle)
                .is_none_or(device_files::gpu_usable),
            detail: Some(detail),
        })
    }

    /// Whether a GPU is in MIG mode, and how many MIG devices it can have; asked once in a
    /// session.
    fn mig(&mut self, gpu: u32, handle: &Handle<'n>) -> Result<(bool, u32), Fault> {
        if let Some(known) = self.mig.get(&gpu) {
            return Ok(*known);
        }
        let mig = has_mig(handle)?;
        let slots = if mig { mig_slots(handle)? } else { 0 };
        self.mig.insert(gpu, (mig, slots));
        Ok((mig, slots))
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

    /// The UUID of what is at a place, asked once in a session.
    fn uuid(&mut self, place: ListedPlace, handle: &Handle<'n>) -> Result<Uuid, Fault> {
        if let Some(known) = self.uuids.get(&place) {
            return Ok(known.clone());
        }
        let text = with_retries(|| raw::uuid(self.nvml, handle))?;
        let uuid = Uuid::parse(&text).ok_or_else(|| not_a_uuid(&text))?;
        self.uuids.insert(place, uuid.clone());
        Ok(uuid)
    }

    /// The handle of a device; `None` for an empty slot, or one that may not be asked about.
    fn filled(&mut self, gpu: u32, slot: Option<u32>) -> Result<Option<Rc<Handle<'n>>>, Fault> {
        if self.empty.contains(&(gpu, slot)) {
            return Ok(None);
        }
        match self.handle(gpu, slot) {
            Ok(handle) => Ok(Some(handle)),
            Err(fault) if slot.is_some() && fault.empty_slot() => {
                self.empty.insert((gpu, slot));
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
        let uuid = self.uuid((gpu, slot), &handle)?;
        // A UUID twice is a library gone wrong: the first place stands.
        self.places.entry(uuid.clone()).or_insert((gpu, slot));
        let parent = self.handle(gpu, None)?;
        let gpu_uuid = match slot {
            None => Some(uuid.clone()),
            Some(_) if detail >= Detail::Place => self.uuid((gpu, None), &parent).ok(),
            Some(_) => None,
        };
        let minor = self.minor(gpu, &parent);
        let placed = slot.filter(|_| detail >= Detail::Place || minor.is_some());
        let instance = placed.and_then(|slot| self.instance(gpu, slot));
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

    /// Where a device is: at the place where it was listed, else at another one of the same
    /// GPU. No other GPU is touched, unless no place is known.
    pub(super) fn place(&mut self, asked: &NvmlQuestion) -> Result<ListedPlace, Fault> {
        let uuid = &asked.uuid;
        if let Some(place) = self.places.get(uuid) {
            return Ok(*place);
        }
        let gpu = match asked.place {
            Some((gpu, slot)) => {
                if self.uuid_at(gpu, slot)?.as_ref() == Some(uuid) {
                    self.places.insert(uuid.clone(), (gpu, slot));
                    return Ok((gpu, slot));
                }
                gpu
            }
            None => self.gpu_by_uuid(uuid)?,
        };
        if asked.place.is_none() && !uuid.is_mig() {
            return Ok((gpu, None));
        }
        let mut sick = None;
        for slot in 0..self.gpu(gpu, Detail::Uuid)?.slots {
            match self.uuid_at(gpu, Some(slot)) {
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

    /// The handle of a device, where that is.
    pub(super) fn handle_of(&mut self, asked: &NvmlQuestion) -> Result<Rc<Handle<'n>>, Fault> {
        let (gpu, slot) = self.place(asked)?;
        self.handle(gpu, slot)
    }

    fn uuid_at(&mut self, gpu: u32, slot: Option<u32>) -> Result<Option<Uuid>, Fault> {
        let handle = self.filled(gpu, slot)?;
        handle
            .map(|handle| self.uuid((gpu, slot), &handle))
            .transpose()
    }

    /// The index of the GPU that a device is on.
    pub(super) fn gpu_of(&mut self, asked: &NvmlQuestion) -> Result<u32, Fault> {
        match self.places.get(&asked.uuid).copied().or(asked.place) {
            Some((gpu, _)) => Ok(gpu),
            None => self.gpu_by_uuid(&asked.uuid),
        }
    }

    /// The same by its name alone: NVML opens one GPU after the other for that.
    fn gpu_by_uuid(&self, uuid: &Uuid) -> Result<u32, Fault> {
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
    pub(super) fn instance(&mut self, gpu: u32, slot: u32) -> Option<(u32, u32)> {
        let handle = self.handle(gpu, Some(slot)).ok()?;
        let known = self.instances.get(&(gpu, slot)).copied();
        let instance = known.or_else(|| raw::instance(self.nvml, &handle).ok())?;
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

    /// What is wrong with a GPU, asked once in a session.
    pub(super) fn ailments(
        &mut self,
        gpu: u32,
        ask: impl FnOnce(&Self) -> Vec<Ailment>,
    ) -> Vec<Ailment> {
        if let Some(known) = self.ailments.get(&gpu) {
            return known.clone();
        }
        let found = ask(self);
        self.ailments.insert(gpu, found.clone());
        found
    }

    /// What the last scan was told of a device's memory, once.
    pub(super) fn scanned_memory(&mut self, gpu: u32, slot: Option<u32>) -> Option<Memory> {
        self.memories.remove(&(gpu, slot))
    }

    /// One GPU with its devices; what of it does not answer stops nothing else.
    pub(super) fn list(&mut self, index: u32, detail: Detail) -> GpuListing {
        let gpu = match self.gpu(index, detail) {
            Ok(gpu) => gpu,
            Err(fault) => return self.list_silent(index, &fault),
        };
        let slots: Vec<Option<u32>> = if gpu.mig {
            (0..gpu.slots).map(Some).collect()
        } else {
            vec![None]
        };
        let (mut devices, mut silent) = (Vec::new(), Vec::new());
        for slot in slots {
            match self.device(index, slot, detail) {
                Ok(device) => devices.extend(device),
                Err(fault) => silent.push(Silent {
                    gpu: index,
                    slot,
                    reason: fault.to_string(),
                }),
            }
        }
        GpuListing {
            gpu,
            devices,
            silent,
        }
    }

    /// A GPU that does not tell its mode.
    fn list_silent(&self, index: u32, fault: &Fault) -> GpuListing {
        let mut listing = GpuListing::silent(index, fault.to_string());
        listing.gpu.uuid = self.uuids.get(&(index, None)).cloned();
        // nvmlDeviceGetHandleByIndex_v2 refuses so what a device cgroup keeps from us, which
        // CUDA does not count.
        listing.gpu.usable = fault.code != fault::NO_PERMISSION;
        listing
    }
}
