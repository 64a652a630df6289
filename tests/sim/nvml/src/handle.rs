//! Device handles: numbers in the clothes of pointers, never followed. They carry the
//! session they were given out in, so one kept across a shutdown is refused.

use crate::codes::{INVALID_ARGUMENT, Reply};
use sim_node::Node;

/// A device of the session's node, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// None at all: the call is about the node.
    None,
    /// A GPU.
    Gpu(usize),
    /// The GPU and the position in its list of MIG devices.
    Mig(usize, usize),
}

/// The handle of a device.
pub(crate) fn encode(session: u16, device: Device) -> usize {
    let (gpu, mig) = match device {
        Device::None => return 0,
        Device::Gpu(gpu) => (gpu + 1, 0),
        Device::Mig(gpu, mig) => (gpu + 1, mig + 1),
    };
    (usize::from(session) << 32) | (gpu << 16) | mig
}

/// The device of a handle.
pub(crate) fn decode(session: u16, node: &Node, handle: usize) -> Reply<Device> {
    let (gpu, mig) = ((handle >> 16) & 0xffff, handle & 0xffff);
    let found = node
        .gpus
        .get(gpu.wrapping_sub(1))
        .filter(|_| handle >> 32 == usize::from(session));
    match (found, mig) {
        (Some(_), 0) => Ok(Device::Gpu(gpu - 1)),
        (Some(found), mig) if mig <= found.devices.len() => Ok(Device::Mig(gpu - 1, mig - 1)),
        _ => Err(INVALID_ARGUMENT),
    }
}
