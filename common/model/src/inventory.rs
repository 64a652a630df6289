//! The devices of a node as plain data: GPUs, MIG devices, their processes and memory. No
//! choosing here and no system calls; this is also what the process that asks NVML sends
//! back.

use std::collections::BTreeSet;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::causes::ModelCause;
use crate::cpus::CpuSet;
use crate::error::Failure;
use crate::health::Health;
use crate::ident::Uuid;

/// What a GPU does now, for people and for a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Gauge {
    /// Percent of the time in which a kernel ran.
    Utilization,
    /// Watts.
    Power,
    /// Degrees Celsius.
    Temperature,
}

/// How much is asked of NVML. Each step costs calls, and attaching a GPU can cost
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Detail {
    /// UUIDs only: enough for a random pick.
    Uuid,
    /// The parent GPU and the instance ids too: for lists and grants.
    Place,
    /// Profiles, total memory and the driver's version too: for requests by size.
    Size,
    /// Names of GPUs too: for requests by model.
    Name,
    /// Memory in use and PCI addresses too: for people.
    Full,
}

/// A GPU, in MIG mode or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// NVML index.
    pub index: u32,
    /// UUID; asked for from `Detail::Place` on.
    pub uuid: Option<Uuid>,
    /// What NVML calls its product, such as `NVIDIA A100-SXM4-40GB`; from `Detail::Name` on.
    pub name: Option<String>,
    /// PCI address as NVML prints it; `Detail::Full`.
    pub pci_bus_id: Option<String>,
    /// Whether it is in MIG mode: then it is never a device itself.
    pub mig: bool,
    /// How many MIG devices it can have at most (nvmlDeviceGetMaxMigDeviceCount); 0
    /// without MIG mode.
    pub slots: u32,
    /// Whether this process may open it.
    pub usable: bool,
    /// How much was asked of it; none: nothing, or it did not answer.
    pub detail: Option<Detail>,
}

/// A device: what CUDA_VISIBLE_DEVICES can name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its UUID.
    pub uuid: Uuid,
    /// NVML index of its GPU.
    pub gpu: u32,
    /// MIG index on its GPU; none for a whole GPU.
    pub slot: Option<u32>,
    /// UUID of its GPU; `Detail::Place`.
    pub gpu_uuid: Option<Uuid>,
    /// GPU instance and compute instance ids; `Detail::Place`.
    pub instance: Option<(u32, u32)>,
    /// Profile, such as `1g.5gb`; from `Detail::Size` on.
    pub profile: Option<String>,
    /// All of its memory, in bytes; from `Detail::Size` on.
    pub memory: Option<u64>,
    /// Whether this process may open its nodes.
    pub usable: bool,
    /// The CPUs near its GPU; only where they were asked for (`nvml_client::Client::near`).
    pub cpus: Option<CpuSet>,
}

impl Device {
    /// A device of which only the UUID is known. Whether it is a MIG device its UUID tells;
    /// where it is, it does not.
    pub fn by_uuid(uuid: Uuid) -> Self {
        Self {
            gpu: 0,
            slot: uuid.is_mig().then_some(0),
            uuid,
            gpu_uuid: None,
            instance: None,
            profile: None,
            memory: None,
            usable: true,
            cpus: None,
        }
    }

    /// The GPU instance of a MIG device: the GPU and the instance's id there;
    /// `Detail::Place`.
    pub fn gpu_instance(&self) -> Option<(u32, u32)> {
        self.instance
            .filter(|_| self.slot.is_some())
            .map(|(gi, _)| (self.gpu, gi))
    }
}

/// A process that NVML shows on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// The process id, as NVML gives it.
    pub pid: u32,
    /// Device memory in bytes, where known.
    pub memory: Option<u64>,
    /// Process name, if /proc shows it.
    pub name: Option<String>,
    /// Its kind makes no device busy (`ignore_processes`).
    pub ignored: bool,
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All there is, in bytes.
    pub total: u64,
    /// In use, in bytes.
    pub used: u64,
}

/// What NVML says of a device's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// No process, and no more memory in use than an idle device has.
    Idle,
    /// A process, or memory.
    Busy,
    /// NVML will not tell. Never free.
    Unknown,
    /// No process, but CUDA cannot or should not start there. Never free.
    Unhealthy,
}

/// A device's use, with its witnesses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// What it is doing.
    pub activity: Activity,
    /// Why, for people; none if idle.
    pub reason: Option<String>,
    /// The processes that NVML shows.
    pub processes: Vec<GpuProcess>,
    /// Memory, if it was asked for and told.
    pub memory: Option<Memory>,
    /// What NVML says of its health: asked of a device that nothing uses, or for people.
    pub health: Health,
}

impl Usage {
    /// That of a device which nothing uses.
    pub const fn idle() -> Self {
        Self {
            activity: Activity::Idle,
            reason: None,
            processes: Vec::new(),
            memory: None,
            health: Health {
                compute_mode: None,
                ailments: Vec::new(),
            },
        }
    }

    /// The same with this health. One that is in use is that first.
    #[must_use]
    pub fn with(self, mut health: Health) -> Self {
        if health.ailments.is_empty() {
            health.ailments = self.health.ailments;
        }
        let objection = health
            .objection()
            .filter(|_| self.activity != Activity::Busy);
        let activity = objection.map_or(self.activity, |_| Activity::Unhealthy);
        let reason = objection.map(|ailment| ailment.text().to_owned());
        Self {
            activity,
            reason: reason.or(self.reason),
            health,
            ..self
        }
    }

    /// In use, and why that is so.
    pub fn busy(reason: String) -> Self {
        Self {
            activity: Activity::Busy,
            reason: Some(reason),
            ..Self::idle()
        }
    }

    /// That of a device which NVML would not tell about, for this reason.
    pub fn unknown(reason: String) -> Self {
        Self {
            activity: Activity::Unknown,
            ..Self::busy(reason)
        }
    }
}

/// A GPU, or one MIG device of it, that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silent {
    /// NVML index of the GPU.
    pub gpu: u32,
    /// MIG index on it; none: the GPU itself.
    pub slot: Option<u32>,
    /// Why nothing more is known of it.
    pub reason: String,
}

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slot = self.slot.map(|slot| format!(" MIG device {slot}"));
        let slot = slot.unwrap_or_default();
        write!(f, "GPU {}{slot}: {}", self.gpu, self.reason)
    }
}

/// Everything on the node that could be asked about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// Version of the driver; from `Detail::Size` on.
    pub driver: Option<String>,
    /// All GPUs, in NVML order.
    pub gpus: Vec<Gpu>,
    /// All devices, in NVML order: GPU index, then MIG index.
    pub devices: Vec<Device>,
    /// The GPUs and MIG devices that did not answer.
    pub silent: Vec<Silent>,
    /// What else is wrong: a line each.
    pub problems: Vec<String>,
}

impl Inventory {
    /// What NVML calls the GPU of a device, if it tells that and was asked.
    pub fn gpu_name(&self, device: &Device) -> Option<&str> {
        self.gpu(device.gpu)?.name.as_deref()
    }

    /// The GPU of this NVML index.
    pub fn gpu(&self, index: u32) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.index == index)
    }

    /// Whether a CUDA program sees only one compute instance of each GPU instance: so
    /// from driver 570 on (MIG guide, device names).
    pub fn one_per_gpu_instance(&self) -> bool {
        self.driver_major().is_some_and(|major| major >= 570)
    }

    fn driver_major(&self) -> Option<u32> {
        self.driver.as_deref()?.split('.').next()?.parse().ok()
    }

    /// Whether one CUDA program can use `count` of these devices together: before driver 570 it
    /// sees only the first of several MIG devices, from then on only one compute instance of each
    /// GPU instance.
    ///
    /// # Errors
    ///
    /// It cannot.
    pub fn check_together<'d>(
        &self,
        count: usize,
        devices: impl Iterator<Item = &'d Device> + Clone,
    ) -> Result<(), Failure> {
        let whole = devices.clone().filter(|device| device.slot.is_none());
        let mig = count.saturating_sub(whole.count());
        let others = devices.clone().filter(|one| one.gpu_instance().is_none());
        let instances = devices.filter_map(Device::gpu_instance);
        let together = instances.collect::<BTreeSet<_>>().len() + others.count();
        if mig > 1 && self.driver_major().is_some_and(|major| major < 570) {
            Err(ModelCause::FirstMigOnly { mig }.into())
        } else if together < count && self.one_per_gpu_instance() {
            Err(ModelCause::OnePerInstance { count, together }.into())
        } else {
            Ok(())
        }
    }
}
