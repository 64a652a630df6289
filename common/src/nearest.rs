//! Which device is best for a rank of a parallel program: the one whose GPU is near the
//! CPUs that the rank may run on, then the one of the rank's block.

use crate::cpus::{CpuSet, overlap};
use crate::inventory::Device;

/// How far a device is from the one that is best for a rank: first by the CPUs near its
/// GPU that the rank may not use, then by whether it is the one of the rank's block.
pub type Distance = (i64, bool);

/// Where a rank of a parallel program is best placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nearest {
    /// The CPUs that it may run on.
    pub cpus: CpuSet,
    /// The device of its block, by its place in the pool.
    pub block: Option<usize>,
}

impl Nearest {
    /// How far a device is, which is at this place of the pool.
    pub fn distance(&self, device: &Device, position: usize) -> Distance {
        let near = device
            .cpus
            .as_ref()
            .map_or(0, |cpus| overlap(cpus, &self.cpus));
        (
            -i64::try_from(near).unwrap_or(i64::MAX),
            self.block != Some(position),
        )
    }
}
