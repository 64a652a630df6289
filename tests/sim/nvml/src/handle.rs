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

#[cfg(test)]
mod tests {
    use super::*;
    use sim_node::{Inventory, builtin};

    #[test]
    fn handles_are_good_for_their_device_and_session_only() {
        let node = Node::new(&Inventory::parse(builtin("mixed").unwrap()).unwrap()).unwrap();
        for device in [Device::Gpu(0), Device::Gpu(3), Device::Mig(0, 2)] {
            assert_eq!(decode(7, &node, encode(7, device)), Ok(device));
            assert_eq!(decode(8, &node, encode(7, device)), Err(INVALID_ARGUMENT));
        }
        for wrong in [
            0,
            1,
            0xdead_beef,
            encode(7, Device::Mig(0, 3)),
            encode(7, Device::Gpu(4)),
        ] {
            assert_eq!(decode(7, &node, wrong), Err(INVALID_ARGUMENT));
        }
    }
}
