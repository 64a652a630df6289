//! The messages between a program that chooses a device and the process that asks NVML
//! for it: one JSON line each way, and an answer is what was asked for or a failure. Both ends
//! are of one release, so nothing here is kept compatible.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::rules::Rules;
use getgpu_model::{Detail, Device, Gauge, Uuid};

/// What the process that asks NVML is asked, a line of JSON each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NvmlRequest {
    /// Comes first: load and initialise the library.
    Open {
        /// Path of the library, if not the loader's.
        library: Option<PathBuf>,
        /// What counts as busy.
        rules: Rules,
    },
    /// Number of GPUs.
    Count,
    /// Version of the driver.
    Driver,
    /// One GPU's MIG mode and number of slots.
    Gpu {
        /// NVML index.
        gpu: u32,
    },
    /// One GPU with its devices.
    List {
        /// NVML index.
        gpu: u32,
        /// How much to ask.
        detail: Detail,
    },
    /// A device; none for an empty slot.
    Device {
        /// NVML index of the GPU.
        gpu: u32,
        /// MIG index; none for the whole GPU.
        slot: Option<u32>,
        /// How much to ask.
        detail: Detail,
    },
    /// Who uses each of these devices, which are on one GPU.
    Usages {
        /// The devices.
        devices: Vec<NvmlQuestion>,
        /// How much to ask.
        detail: Detail,
    },
    /// Which CPUs are near the GPU of a device.
    Cpus {
        /// The device.
        device: NvmlQuestion,
    },
    /// Whether a device is well.
    Health {
        /// The device.
        device: NvmlQuestion,
    },
    /// Whether persistence mode of a GPU is on; none: NVML does not tell.
    Persistence {
        /// Its NVML index.
        gpu: u32,
    },
    /// One number of a GPU, by NVML index; none: NVML does not tell.
    Gauge {
        /// Its NVML index.
        gpu: u32,
        /// Which number.
        gauge: Gauge,
    },
    /// How busy devices of one GPU are; none: NVML does not tell.
    Utilizations {
        /// The devices.
        devices: Vec<NvmlQuestion>,
    },
    /// How a GPU is connected with each of these.
    Links {
        /// Its NVML index.
        gpu: u32,
        /// Theirs.
        others: Vec<u32>,
    },
    /// Let the programs in a cgroup have so much of a GPU's memory, and no more.
    LimitMemory {
        /// The GPU.
        device: NvmlQuestion,
        /// The directory of the cgroup.
        cgroup: PathBuf,
        /// How much, in bytes.
        bytes: u64,
    },
    /// How much of a GPU's memory they can have.
    MemoryLimit {
        /// The GPU.
        device: NvmlQuestion,
        /// The directory of the cgroup.
        cgroup: PathBuf,
    },
    /// Shut the library down.
    Quit,
}

/// A device that a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlQuestion {
    /// The device.
    pub uuid: Uuid,
    /// The NVML index of its GPU and its MIG index, as it was listed. None: it is looked for
    /// by its UUID, for which NVML touches one GPU after the other.
    pub place: Option<(u32, Option<u32>)>,
}

impl From<&Device> for NvmlQuestion {
    fn from(device: &Device) -> Self {
        Self {
            uuid: device.uuid.clone(),
            place: Some((device.gpu, device.slot)),
        }
    }
}

impl From<&Uuid> for NvmlQuestion {
    fn from(uuid: &Uuid) -> Self {
        Self {
            uuid: uuid.clone(),
            place: None,
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
