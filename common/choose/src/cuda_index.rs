//! The CUDA index of a whole GPU: its place, in PCI order, among the GPUs that this process can open. A MIG device has
//! none, and a UUID in the place of an index would be taken for one.

use getgpu_ask::gpu_bus;
use getgpu_model::{Failure, Inventory, Kind, Uuid};

/// The index, asked for by `option`.
///
/// # Errors
///
/// The device is no whole GPU of this node, or it is not certain that CUDA counts a GPU before it that
/// does not answer.
pub fn cuda_index(uuid: &Uuid, inventory: &Inventory, option: &str) -> Result<usize, Failure> {
    let gpus: Vec<_> = inventory.gpus.iter().filter(|gpu| gpu.usable).collect();
    let Some(index) = gpus.iter().position(|gpu| gpu.uuid.as_ref() == Some(uuid)) else {
        let text = format!("{option}: {uuid}: only a whole GPU has a CUDA index");
        return Err(Failure::new(Kind::NoDevice, text).hint("UUIDs, the default, fit all devices"));
    };
    let mut before = gpus[..index].iter();
    let silent = before.find_map(|gpu| inventory.silent_gpu(gpu.index));
    let Some(silent) = silent.filter(|_| !gpu_bus::has_all(inventory.gpus.len())) else {
        return Ok(index);
    };
    let text = format!(
        "{option}: it is not certain which index CUDA gives a GPU, since one before it does not answer: {silent}"
    );
    Err(Failure::new(Kind::Nvml, text).hint("UUIDs, the default, are certain"))
}
