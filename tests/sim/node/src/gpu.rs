//! The node with everything worked out: UUIDs, names, memory, MIG indices. This is what
//! the simulated library answers for and what the simulated CUDA program chooses from.

use crate::inventory::{DeviceSpec, GpuSpec, Inventory, LinkKind};
use crate::models::{Model, model};
use crate::version::Version;
use crate::{layout, uuid};

/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Driver version as text.
    pub driver: String,
    /// The same, to compare.
    pub version: Version,
    /// How the GPUs are connected.
    pub links: Option<LinkKind>,
    /// GPUs in NVML order.
    pub gpus: Vec<Gpu>,
}

/// Whether a GPU is in MIG mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigMode {
    /// The GPU cannot do MIG.
    Incapable,
    /// Off.
    Off,
    /// On.
    On,
}

/// A GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// NVML index.
    pub index: u32,
    /// Product name in the form of the driver.
    pub name: String,
    /// `GPU-...`.
    pub uuid: String,
    /// PCI bus; domain and device are 0.
    pub pci_bus: u32,
    /// PCI device and vendor id.
    pub pci_device: u32,
    /// Compute capability.
    pub cuda: (i32, i32),
    /// Memory in bytes.
    pub memory: u64,
    /// Bytes the driver keeps for itself.
    pub reserved: u64,
    /// Bytes in use when nothing runs.
    pub idle: u64,
    /// It has no memory of its own that NVML reports.
    pub integrated: bool,
    /// The host's NUMA node that its memory is.
    pub numa_node: Option<u32>,
    /// MIG mode.
    pub mig: MigMode,
    /// Most MIG devices it can have.
    pub slots: u32,
    /// MIG devices by index; holes are left out.
    pub devices: Vec<MigDevice>,
    /// CPUs near it.
    pub cpus: Vec<usize>,
}

/// A MIG device.
#[derive(Clone, Debug)]
pub struct MigDevice {
    /// MIG index in its GPU.
    pub index: u32,
    /// GPU instance id.
    pub gi: u32,
    /// Compute instance id.
    pub ci: u32,
    /// Profile.
    pub profile: String,
    /// `MIG-...`.
    pub uuid: String,
    /// Memory of its GPU instance in bytes.
    pub memory: u64,
    /// Bytes in use when nothing runs.
    pub idle: u64,
    /// SMs of the compute instance.
    pub multiprocessors: u32,
    /// Slices of the GPU instance.
    pub gi_slices: u32,
    /// Slices of the compute instance.
    pub ci_slices: u32,
}

impl Node {
    /// Works out what the inventory leaves out, and refuses what cannot be.
    pub fn new(inventory: &Inventory) -> Result<Self, String> {
        let version: Version = inventory.driver.parse()?;
        let mut gpus = Vec::new();
        for spec in &inventory.gpu {
            let count = spec.count.unwrap_or(1);
            for _ in 0..count {
                let index = gpus.len() as u32;
                let gpu = Gpu::new(spec, index, &inventory.host, version);
                gpus.push(gpu.map_err(|why| format!("GPU {index}: {why}"))?);
            }
        }
        Ok(Self {
            driver: inventory.driver.clone(),
            version,
            links: inventory.links,
            gpus,
        })
    }

    /// All MIG devices with their GPUs, in the order of the node.
    pub fn mig_devices(&self) -> impl Iterator<Item = (&Gpu, &MigDevice)> {
        self.gpus
            .iter()
            .flat_map(|gpu| gpu.devices.iter().map(move |device| (gpu, device)))
    }

    /// The UUIDs of everything CUDA_VISIBLE_DEVICES can name: MIG devices, and GPUs not
    /// in MIG mode.
    pub fn device_uuids(&self) -> Vec<String> {
        let mut uuids = Vec::new();
        for gpu in &self.gpus {
            if gpu.in_mig_mode() {
                uuids.extend(gpu.devices.iter().map(|device| device.uuid.clone()));
            } else {
                uuids.push(gpu.uuid.clone());
            }
        }
        uuids
    }
}

impl Gpu {
    fn new(spec: &GpuSpec, index: u32, host: &str, version: Version) -> Result<Self, String> {
        let model = model(&spec.model)?;
        let maker = if version.has_long_names() {
            model.maker
        } else {
            ""
        };
        let own = || format!("GPU-{}", uuid::from_seed(&format!("{host} gpu {index}")));
        let (name, uuid) = (format!("{maker}{}", model.name), spec.uuid.clone());
        let mut gpu = Self {
            index,
            name,
            uuid: uuid.unwrap_or_else(own),
            pci_bus: 7 + 8 * index,
            pci_device: model.pci,
            cuda: model.cuda,
            memory: model.mib * MIB,
            reserved: u64::from(version.has_memory_v2()) * (model.mib / 64) * MIB,
            idle: spec.idle_mib.unwrap_or(4) * MIB,
            integrated: spec.integrated,
            numa_node: spec.numa_node,
            mig: mig_mode(spec, model)?,
            slots: model.slots,
            devices: Vec::new(),
            cpus: cpu_list(spec.cpus.as_deref().unwrap_or("0-63"))?,
        };
        gpu.add_devices(spec, model, host, version)?;
        Ok(gpu)
    }

    /// Numbers the devices as the driver does: in the order of (GI, CI), unless an index
    /// is given.
    fn add_devices(
        &mut self,
        spec: &GpuSpec,
        model: &Model,
        host: &str,
        version: Version,
    ) -> Result<(), String> {
        let mut specs = match &spec.layout {
            Some(layout) => layout::devices(model, layout)?,
            None => Vec::new(),
        };
        specs.extend(spec.device.iter().cloned());
        specs.sort_by_key(|device| (device.gi, device.ci));
        let mut next = 0;
        for device in &specs {
            let index = device.index.unwrap_or(next);
            next = index + 1;
            self.devices
                .push(self.device(device, index, model, host, version)?);
        }
        Ok(())
    }

    fn device(
        &self,
        spec: &DeviceSpec,
        index: u32,
        model: &Model,
        host: &str,
        version: Version,
    ) -> Result<MigDevice, String> {
        let (facts, ci_slices) = model.profile(&spec.profile)?;
        let uuid = match &spec.uuid {
            Some(uuid) => uuid.clone(),
            None if version.has_mig_uuids() => {
                let (gpu, gi, ci) = (self.index, spec.gi, spec.ci);
                let seed = format!("{host} gpu {gpu} gi {gi} ci {ci}");
                format!("MIG-{}", uuid::from_seed(&seed))
            }
            None => format!("MIG-{}/{}/{}", self.uuid, spec.gi, spec.ci),
        };
        let usual = [44, 25, 12, 12][facts.part.ilog2() as usize];
        Ok(MigDevice {
            index,
            gi: spec.gi,
            ci: spec.ci,
            profile: spec.profile.clone(),
            uuid,
            memory: facts.mib * MIB,
            idle: spec.idle_mib.unwrap_or(usual) * MIB,
            multiprocessors: facts.multiprocessors * ci_slices / facts.slices,
            gi_slices: facts.slices,
            ci_slices,
        })
    }

    /// `00000000:07:00.0`.
    pub fn pci_bus_id(&self) -> String {
        format!("00000000:{:02X}:00.0", self.pci_bus)
    }

    /// Whether MIG mode is on now.
    pub fn in_mig_mode(&self) -> bool {
        self.mig == MigMode::On
    }
}

fn mig_mode(spec: &GpuSpec, model: &Model) -> Result<MigMode, String> {
    match (model.slots, spec.mig) {
        (0, false) => Ok(MigMode::Incapable),
        (0, true) => Err(format!("{} cannot do MIG", model.id)),
        (_, true) => Ok(MigMode::On),
        (_, false) => Ok(MigMode::Off),
    }
}

fn cpu_list(text: &str) -> Result<Vec<usize>, String> {
    let number = |part: &str| {
        part.trim()
            .parse::<usize>()
            .map_err(|_| format!("cpus {text:?}: not a list of CPUs"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => cpus.extend(number(first)?..=number(last)?),
            None => cpus.push(number(part)?),
        }
    }
    Ok(cpus)
}
