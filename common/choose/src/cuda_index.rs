//! The CUDA index of a whole GPU: its place, in PCI order, among the GPUs that this process can open. A MIG device has
//! none, and a UUID in the place of an index would be taken for one.

use getgpu_ask::gpu_bus;
use getgpu_model::{Failure, Inventory, Uuid};

use crate::causes::ChooseCause;

/// The index, asked for by `option`.
///
/// # Errors
///
/// The device is no whole GPU of this node, or it is not certain that CUDA counts a GPU before it that
/// does not answer.
pub fn cuda_index(uuid: &Uuid, inventory: &Inventory, option: &str) -> Result<usize, Failure> {
    let gpus: Vec<_> = inventory.gpus.iter().filter(|gpu| gpu.usable).collect();
    let Some(index) = gpus.iter().position(|gpu| gpu.uuid.as_ref() == Some(uuid)) else {
        return Err(ChooseCause::NoCudaIndex { option, uuid }.into());
    };
    let mut before = gpus[..index].iter();
    let silent = before.find_map(|gpu| inventory.silent_gpu(gpu.index));
    let Some(silent) = silent.filter(|_| !gpu_bus::has_all(inventory.gpus.len())) else {
        return Ok(index);
    };
    Err(ChooseCause::UnsureCudaIndex { option, silent }.into())
}
