//! How much of a GPU's memory the driver lets the programs in a cgroup have (drivers from branch 615 on,
//! whole GPUs).

use std::path::Path;

use getgpu_ask::NvmlQuestion;

use super::fault::Fault;
use super::raw;
use super::session::Session;

/// Lets the programs in a cgroup have so many bytes of a GPU's memory, and no more
/// (nvmlDeviceSetMemoryLimits_v1).
pub(super) fn limit(
    session: &mut Session<'_>,
    device: &NvmlQuestion,
    cgroup: &Path,
    bytes: u64,
) -> Result<(), Fault> {
    let (gpu, slot) = session.place(device)?;
    let handle = session.handle(gpu, slot)?;
    raw::limit_memory(session.nvml, &handle, cgroup, bytes)
}

/// How many they can have; none: there is no limit (nvmlDeviceGetMemoryLimits_v1).
pub(super) fn limit_of(
    session: &mut Session<'_>,
    device: &NvmlQuestion,
    cgroup: &Path,
) -> Result<Option<u64>, Fault> {
    let (gpu, slot) = session.place(device)?;
    let handle = session.handle(gpu, slot)?;
    raw::memory_limit(session.nvml, &handle, cgroup)
}
