//! The messages between a program that chooses a device and the process that asks NVML
//! for it: one JSON line each way. Both ends are of one release, so nothing here is kept
//! compatible.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::rules::Rules;
use crate::cpus::CpuSet;
use crate::error::Failure;
use crate::ident::Uuid;
use crate::inventory::{Detail, Device, Gpu, Inventory, Usage};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Comes first: load and initialise the library.
    Open {
        /// Path of the library, if not the loader's.
        library: Option<PathBuf>,
        /// What counts as busy.
        rules: Rules,
    },
    Count,
    /// One GPU's MIG mode and number of slots.
    Gpu {
        /// NVML index.
        gpu: u32,
    },
    Device {
        /// NVML index of the GPU.
        gpu: u32,
        /// MIG index; none for the whole GPU.
        slot: Option<u32>,
        /// How much to ask.
        detail: Detail,
    },
    /// Who uses a device.
    Usage {
        uuid: Uuid,
        /// How much to ask.
        detail: Detail,
    },
    /// Who uses each of these devices.
    Usages {
        devices: Vec<Uuid>,
        /// How much to ask.
        detail: Detail,
    },
    /// Which CPUs are near the GPU of a device.
    Cpus {
        uuid: Uuid,
    },
    Scan {
        /// How much to ask.
        detail: Detail,
    },
    /// Shut the library down.
    Quit,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The library is ready.
    Opened,
    /// Number of GPUs.
    Count(u32),
    Gpu(Gpu),
    /// A device, or an empty slot.
    Device(Option<Device>),
    Usage(Usage),
    /// In the order of the question.
    Usages(Vec<Result<Usage, Failure>>),
    /// The CPUs near a GPU.
    Cpus(CpuSet),
    Scan(Inventory),
    Failed(Failure),
    /// The library is shut down.
    Bye,
}

#[cfg(test)]
#[path = "wire_properties.rs"]
mod properties;
