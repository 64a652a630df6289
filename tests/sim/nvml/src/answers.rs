//! What the library says about the node, its GPUs and MIG devices, apart from processes
//! and memory. Which call a kind of device refuses, and how, follows NVIDIA's header and
//! what real nodes were seen to do.

use crate::abi::{DeviceAttributes, PciInfo, Utilization};
use crate::codes::{INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Reply};
use crate::handle::{Device, encode};
use crate::session::Session;
use sim_node::{Gpu, MIB, MigDevice, MigMode};
use std::ffi::c_char;

impl Session {
    /// The GPU of a device, the MIG device's parent included.
    pub(crate) fn parent(&self, device: Device) -> Reply<&Gpu> {
        match device {
            Device::Gpu(gpu) | Device::Mig(gpu, _) => {
                self.node.gpus.get(gpu).ok_or(INVALID_ARGUMENT)
            }
            Device::None => Err(INVALID_ARGUMENT),
        }
    }

    /// The GPU, if the device is one; MIG devices refuse such calls.
    pub(crate) fn gpu(&self, device: Device) -> Reply<&Gpu> {
        match device {
            Device::Mig(..) => Err(NOT_SUPPORTED),
            _ => self.parent(device),
        }
    }

    /// The MIG device, if the device is one; GPUs refuse such calls.
    pub(crate) fn mig(&self, device: Device) -> Reply<&MigDevice> {
        match device {
            Device::Mig(gpu, mig) => Ok(&self.node.gpus[gpu].devices[mig]),
            Device::Gpu(_) => Err(NOT_SUPPORTED),
            Device::None => Err(INVALID_ARGUMENT),
        }
    }

    pub(crate) fn handle(&self, device: Device) -> usize {
        encode(self.number, device)
    }

    pub(crate) fn name(&self, device: Device) -> Reply<String> {
        let name = &self.parent(device)?.name;
        Ok(self.mig(device).map_or_else(
            |_| name.clone(),
            |mig| format!("{name} MIG {}", mig.profile),
        ))
    }

    pub(crate) fn uuid(&self, device: Device) -> Reply<String> {
        let gpu = &self.parent(device)?.uuid;
        Ok(self
            .mig(device)
            .map_or_else(|_| gpu.clone(), |mig| mig.uuid.clone()))
    }

    pub(crate) fn index(&self, device: Device) -> Reply<u32> {
        match device {
            // Its place among those that are listed.
            Device::Gpu(at) => Ok(at as u32),
            _ => self.mig(device).map(|mig| mig.index),
        }
    }

    /// Current and pending mode.
    pub(crate) fn mig_mode(&self, device: Device) -> Reply<(u32, u32)> {
        if matches!(device, Device::Mig(..)) {
            return Err(INVALID_ARGUMENT);
        }
        match self.gpu(device)?.mig {
            MigMode::Incapable => Err(NOT_SUPPORTED),
            MigMode::Off => Ok((0, 0)),
            MigMode::On => Ok((1, 1)),
        }
    }

    /// How many MIG devices there could be, not how many there are.
    pub(crate) fn max_mig_devices(&self, device: Device) -> Reply<u32> {
        let gpu = self.gpu(device).map_err(|_| INVALID_ARGUMENT)?;
        Ok(if gpu.in_mig_mode() { gpu.slots } else { 0 })
    }

    pub(crate) fn mig_by_index(&self, device: Device, index: u32) -> Reply<usize> {
        let (Device::Gpu(at), gpu) = (device, self.parent(device)?) else {
            return Err(INVALID_ARGUMENT);
        };
        match gpu.mig {
            MigMode::Incapable => Err(NOT_SUPPORTED),
            _ if index >= gpu.slots => Err(INVALID_ARGUMENT),
            _ => {
                let found = gpu
                    .devices
                    .iter()
                    .position(|mig| mig.index == index)
                    .ok_or(NOT_FOUND)?;
                Ok(self.handle(Device::Mig(at, found)))
            }
        }
    }

    pub(crate) fn parent_handle(&self, device: Device) -> Reply<usize> {
        match device {
            Device::Mig(gpu, _) => Ok(self.handle(Device::Gpu(gpu))),
            _ => Err(INVALID_ARGUMENT),
        }
    }

    pub(crate) fn attributes(&self, device: Device) -> Reply<DeviceAttributes> {
        let mig = self.mig(device)?;
        Ok(DeviceAttributes {
            multiprocessor_count: mig.multiprocessors,
            gpu_instance_slice_count: mig.gi_slices,
            compute_instance_slice_count: mig.ci_slices,
            memory_size_mb: mig.memory / MIB,
            ..DeviceAttributes::default()
        })
    }

    pub(crate) fn pci_info(&self, device: Device) -> Reply<PciInfo> {
        let gpu = self.gpu(device)?;
        let id = gpu.pci_bus_id();
        Ok(PciInfo {
            bus_id_legacy: chars(&id[4..]),
            domain: 0,
            bus: gpu.pci_bus,
            device: 0,
            pci_device_id: gpu.pci_device,
            pci_sub_system_id: gpu.pci_device,
            bus_id: chars(&id),
        })
    }

    /// Not told for MIG devices, nor for GPUs in MIG mode.
    pub(crate) fn utilization(&self, device: Device) -> Reply<Utilization> {
        let gpu = self.gpu(device)?;
        if gpu.in_mig_mode() {
            return Err(NOT_SUPPORTED);
        }
        let busy = self
            .folder
            .running_on(&gpu.uuid)
            .is_ok_and(|running| !running.is_empty());
        let usual = Utilization {
            gpu: 97 * u32::from(busy),
            memory: 40 * u32::from(busy),
        };
        let told = self.fault(device)?.utilization;
        Ok(told.map_or(usual, |gpu| Utilization { gpu, memory: gpu }))
    }
}

fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    for (to, from) in chars.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from as c_char;
    }
    chars
}
