//! The messages between a program that chooses a device and the process that asks NVML
//! for it: one JSON line each way, and an answer is what was asked for or a failure. Both ends
//! are of one release, so nothing here is kept compatible.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::rules::Rules;
use crate::ident::Uuid;
use crate::inventory::{Detail, Gauge};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Comes first: load and initialise the library.
    Open {
        /// Path of the library, if not the loader's.
        library: Option<PathBuf>,
        /// What counts as busy.
        rules: Rules,
    },
    /// Number of GPUs.
    Count,
    /// One GPU's MIG mode and number of slots.
    Gpu {
        /// NVML index.
        gpu: u32,
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
    /// Who uses each of these devices.
    Usages {
        devices: Vec<Uuid>,
        /// How much to ask.
        detail: Detail,
    },
    /// Which CPUs are near the GPU of a device.
    Cpus { uuid: Uuid },
    /// One number of each of these GPUs, by NVML index; none: NVML does not tell.
    Gauges { gpus: Vec<u32>, gauge: Gauge },
    Scan {
        /// How much to ask.
        detail: Detail,
    },
    /// Shut the library down.
    Quit,
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
