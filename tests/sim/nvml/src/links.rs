//! What the library says of the connections between GPUs: as `node.toml` has it.

use crate::abi::PciInfo;
use crate::codes::{INVALID_ARGUMENT, NOT_SUPPORTED, Reply};
use crate::handle::{Device, decode};
use crate::session::Session;
use sim_node::LinkKind;

/// NVML_TOPOLOGY_NODE and NVML_TOPOLOGY_SYSTEM.
const NODE: u32 = 40;
const SYSTEM: u32 = 50;
/// A bus that no simulated GPU is on: that of a switch.
const SWITCH: u32 = 0xf0;

impl Session {
    fn link_kind(&self) -> Reply<LinkKind> {
        self.node.links.ok_or(NOT_SUPPORTED)
    }

    pub(crate) fn topology_level(&self, one: Device, other: usize) -> Reply<u32> {
        let other = self.gpu(decode(self.number, &self.node, other)?)?.index;
        let (kind, one) = (self.link_kind(), self.gpu(one)?.index);
        kind?;
        let half = self.node.gpus.len() as u32 / 2;
        Ok(if (one < half) == (other < half) {
            NODE
        } else {
            SYSTEM
        })
    }

    /// Whether a link is active: NVLinks have numbers from 0 on.
    pub(crate) fn link_state(&self, device: Device, link: u32) -> Reply<u32> {
        self.gpu(device)?;
        let links = match self.link_kind()? {
            LinkKind::Switch => 12,
            LinkKind::Pairs => 4,
            LinkKind::Pcie => return Err(NOT_SUPPORTED),
        };
        if link < links {
            Ok(1)
        } else {
            Err(INVALID_ARGUMENT)
        }
    }

    /// NVML_NVLINK_DEVICE_TYPE_*.
    pub(crate) fn link_remote_kind(&self, device: Device, link: u32) -> Reply<u32> {
        self.link_state(device, link)?;
        Ok(match self.link_kind()? {
            LinkKind::Switch => 2,
            LinkKind::Pairs | LinkKind::Pcie => 0,
        })
    }

    pub(crate) fn link_remote(&self, device: Device, link: u32) -> Reply<PciInfo> {
        self.link_state(device, link)?;
        if self.link_kind()? == LinkKind::Pairs {
            let partner = self.gpu(device)?.index as usize ^ 1;
            return self.pci_info(Device::Gpu(partner));
        }
        Ok(PciInfo {
            bus: SWITCH,
            ..self.pci_info(device)?
        })
    }
}
