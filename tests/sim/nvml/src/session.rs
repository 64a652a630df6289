//! What one init session knows: the node and its faults as they were at init, and which
//! GPUs it has touched. A later change of the files is seen by the next session only, as
//! with a driver that is asked anew.

use crate::codes::{INVALID_ARGUMENT, NOT_FOUND, Reply};
use crate::handle::{Device, decode};
use sim_node::{Faults, Folder, MigMode, Node};
use std::io;

/// What a call is about, as the caller names it.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Node,
    Handle(usize),
    /// A GPU's handle and a MIG index.
    Slot(usize, u32),
    Index(u32),
    Uuid(String),
    PciBusId(String),
    /// A NULL where a name is due.
    Missing,
}

/// An init session.
pub(crate) struct Session {
    pub(crate) folder: Folder,
    pub(crate) node: Node,
    pub(crate) faults: Faults,
    /// Tells handles of different sessions apart; given when the session begins.
    pub(crate) number: u16,
    /// Invented processes listed so far.
    pub(crate) grown: u32,
    /// The caller's environment asks for MPS locality domains (nvml.h 13.5): they have
    /// names of their own, no MIG mode and no lists of processes.
    pub(crate) mps_domains: bool,
    /// The caller, as the initial user namespace knows it.
    pub(crate) uid: u32,
    attached: Vec<bool>,
}

impl Session {
    pub(crate) fn open(folder: Folder) -> io::Result<Self> {
        let mut node = folder.node()?;
        let faults = folder.faults()?;
        if faults.closed_hidden {
            sim_node::device_nodes::retain_open(&mut node);
        }
        let uid = outer_uid(nix::unistd::geteuid().as_raw());
        let mps_domains =
            std::env::var_os("NVML_MPS_DEVICE_ENUMERATION").is_some_and(|value| value == "1");
        if mps_domains {
            for gpu in &mut node.gpus {
                gpu.devices.clear();
                gpu.mig = MigMode::Incapable;
                // Not the GPU's own name, and no other GPU's.
                let other = gpu.uuid.replacen("GPU-", "GPU-d0", 1);
                gpu.uuid = other[..gpu.uuid.len()].to_owned();
            }
        }
        let attached = vec![false; node.gpus.len()];
        Ok(Self {
            folder,
            node,
            faults,
            number: 0,
            grown: 0,
            mps_domains,
            uid,
            attached,
        })
    }

    /// The device that a call is about, and the GPUs it is the first to touch.
    pub(crate) fn resolve(&mut self, target: &Target) -> (Reply<Device>, Vec<usize>) {
        match target {
            Target::Node => (Ok(Device::None), Vec::new()),
            Target::Missing => (Err(INVALID_ARGUMENT), Vec::new()),
            Target::Handle(handle) | Target::Slot(handle, _) => {
                (decode(self.number, &self.node, *handle), Vec::new())
            }
            Target::Index(index) => {
                let index = *index as usize;
                let found = (index < self.node.gpus.len()).then_some(Device::Gpu(index));
                (found.ok_or(INVALID_ARGUMENT), self.attach(index..=index))
            }
            Target::PciBusId(id) => {
                let mut gpus = self.node.gpus.iter();
                let found = gpus.position(|gpu| same_bus_id(&gpu.pci_bus_id(), id));
                let attached = found.map(|gpu| self.attach(gpu..=gpu));
                let device = found.map(Device::Gpu).ok_or(NOT_FOUND);
                (device, attached.unwrap_or_default())
            }
            Target::Uuid(uuid) => {
                let found = self.by_uuid(uuid);
                // NVML looks for a UUID by opening one GPU after the other.
                let last = match found {
                    Some(Device::Gpu(gpu) | Device::Mig(gpu, _)) => gpu,
                    _ => self.node.gpus.len().saturating_sub(1),
                };
                (found.ok_or(NOT_FOUND), self.attach(0..=last))
            }
        }
    }

    fn by_uuid(&self, uuid: &str) -> Option<Device> {
        self.node.gpus.iter().enumerate().find_map(|(g, gpu)| {
            if gpu.uuid == uuid {
                return Some(Device::Gpu(g));
            }
            let named = |(_, device): &(usize, &sim_node::MigDevice)| {
                device.uuid == uuid
                    || format!("MIG-{}/{}/{}", gpu.uuid, device.gi, device.ci) == uuid
            };
            gpu.devices
                .iter()
                .enumerate()
                .find(named)
                .map(|(d, _)| Device::Mig(g, d))
        })
    }

    fn attach(&mut self, gpus: std::ops::RangeInclusive<usize>) -> Vec<usize> {
        let mut fresh = Vec::new();
        for gpu in gpus {
            if let Some(attached @ false) = self.attached.get_mut(gpu) {
                *attached = true;
                fresh.push(gpu);
            }
        }
        fresh
    }

    /// The index of the device's GPU, and the UUIDs a fault may name it by.
    pub(crate) fn names(&self, device: Device) -> (Option<u32>, Vec<&str>) {
        let (gpu, mig) = match device {
            Device::None => return (None, Vec::new()),
            Device::Gpu(gpu) => (&self.node.gpus[gpu], None),
            Device::Mig(gpu, mig) => (&self.node.gpus[gpu], Some(mig)),
        };
        let uuid = mig.map_or(&gpu.uuid, |mig| &gpu.devices[mig].uuid);
        (Some(gpu.index), vec![uuid])
    }
}

/// A uid of the caller's user namespace outside of it (user_namespaces(7)); device files
/// and capabilities go by that one.
fn outer_uid(uid: u32) -> u32 {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let outer = map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        let (inside, outside, count) = (next()?, next()?, next()?);
        let place = uid.checked_sub(inside).filter(|place| *place < count)?;
        outside.checked_add(place)
    });
    outer.unwrap_or(uid)
}

/// NVML takes domains of four and of eight digits, in either case.
fn same_bus_id(full: &str, given: &str) -> bool {
    full.eq_ignore_ascii_case(given) || full[4..].eq_ignore_ascii_case(given)
}
