//! What NVML lists of one GPU, and how the lists of all GPUs become an inventory. A GPU, or a
//! MIG device of it, that does not answer keeps its place there, so that no index moves. Pure.

use serde::{Deserialize, Serialize};

use crate::ident::Uuid;
use crate::inventory::{Detail, Device, Gpu, Inventory, Silent};

/// One GPU with its devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuListing {
    /// The GPU itself.
    pub gpu: Gpu,
    /// In the order of their MIG indices.
    pub devices: Vec<Device>,
    /// What of it did not answer.
    pub silent: Vec<Silent>,
}

impl GpuListing {
    /// That of a GPU which did not answer at all.
    pub fn silent(index: u32, reason: impl Into<String>) -> Self {
        let silent = Silent {
            gpu: index,
            slot: None,
            reason: reason.into(),
        };
        Self {
            gpu: Gpu::unasked(index),
            devices: Vec::new(),
            silent: vec![silent],
        }
    }
}

impl Gpu {
    /// A GPU of which only the index is known.
    pub const fn unasked(index: u32) -> Self {
        Self {
            index,
            uuid: None,
            name: None,
            pci_bus_id: None,
            mig: false,
            slots: 0,
            usable: true,
            detail: None,
        }
    }
}

impl Inventory {
    /// Adds the next GPU in NVML order.
    pub fn add(&mut self, listing: GpuListing) {
        let end = self.devices.len();
        self.insert_devices(end, listing.devices);
        self.gpus.push(listing.gpu);
        self.silent.extend(listing.silent);
    }

    /// Puts what is known of a GPU by now in the place of what was known before.
    pub fn replace(&mut self, listing: GpuListing) {
        let index = listing.gpu.index;
        let mut gpus = self.gpus.iter_mut();
        let Some(gpu) = gpus.find(|gpu| gpu.index == index) else {
            return;
        };
        *gpu = listing.gpu;
        // The first device behind those of the GPUs before.
        let at = self.devices.partition_point(|device| device.gpu < index);
        self.devices.retain(|device| device.gpu != index);
        self.insert_devices(at, listing.devices);
        self.silent.retain(|silent| silent.gpu != index);
        self.silent.extend(listing.silent);
        self.silent.sort_by_key(|silent| (silent.gpu, silent.slot));
    }

    /// A UUID twice is a library gone wrong: the second one is never handed out.
    fn insert_devices(&mut self, mut at: usize, devices: Vec<Device>) {
        for device in devices {
            if self.device(&device.uuid).is_some() {
                let problem = format!("GPU {}: {} is listed twice", device.gpu, device.uuid);
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            } else {
                self.devices.insert(at, device);
                at += 1;
            }
        }
    }

    /// Notes that a GPU, whose devices are known, no longer answers.
    pub fn note_silent(&mut self, gpu: u32, reason: String) {
        if self.silent_gpu(gpu).is_none() {
            let slot = None;
            self.silent.push(Silent { gpu, slot, reason });
        }
    }

    /// Takes over from an earlier inventory what it knew of GPUs that do not answer now: they
    /// are not gone.
    pub fn keep_silent(&mut self, before: &Self) {
        let nameless: Vec<Silent> = self.nameless().cloned().collect();
        for silent in nameless.into_iter().filter(|silent| silent.slot.is_none()) {
            let gpu = before.gpu(silent.gpu);
            let Some(gpu) = gpu.filter(|gpu| gpu.detail.is_some()) else {
                continue;
            };
            let of_gpu = before.devices.iter().filter(|d| d.gpu == gpu.index);
            self.replace(GpuListing {
                gpu: gpu.clone(),
                devices: of_gpu.cloned().collect(),
                silent: vec![silent],
            });
        }
    }

    /// Why a GPU does not answer, if it does not.
    pub fn silent_gpu(&self, gpu: u32) -> Option<&Silent> {
        let mut silent = self.silent.iter();
        silent.find(|silent| silent.gpu == gpu && silent.slot.is_none())
    }

    /// What does not answer and of which no device is known, in NVML order.
    pub fn nameless(&self) -> impl Iterator<Item = &Silent> {
        self.silent.iter().filter(|silent| {
            let known = self.devices.iter().any(|device| device.gpu == silent.gpu);
            silent.slot.is_some() || !known
        })
    }

    /// A line for each GPU or device that does not answer, and for each other problem.
    pub fn troubles(&self) -> Vec<String> {
        let silent = self.silent.iter().map(ToString::to_string);
        silent.chain(self.problems.iter().cloned()).collect()
    }

    /// The device of this UUID.
    pub fn device(&self, uuid: &Uuid) -> Option<&Device> {
        self.devices.iter().find(|device| device.uuid == *uuid)
    }

    /// Whether so much is known of a GPU.
    pub fn knows(&self, gpu: u32, detail: Detail) -> bool {
        self.gpu(gpu)
            .is_some_and(|known| known.detail >= Some(detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(n: u32) -> Uuid {
        Uuid::parse(&format!("GPU-{n:08x}-1111-5222-8333-444455556666")).unwrap()
    }

    fn whole(index: u32) -> GpuListing {
        let gpu = Gpu {
            uuid: Some(uuid(index)),
            detail: Some(Detail::Place),
            ..Gpu::unasked(index)
        };
        let device = Device {
            gpu: index,
            ..Device::by_uuid(uuid(index))
        };
        GpuListing {
            gpu,
            devices: vec![device],
            silent: Vec::new(),
        }
    }

    fn inventory(listings: [GpuListing; 3]) -> Inventory {
        let mut inventory = Inventory::default();
        listings.into_iter().for_each(|one| inventory.add(one));
        inventory
    }

    fn gpus(inventory: &Inventory) -> Vec<u32> {
        inventory.devices.iter().map(|device| device.gpu).collect()
    }

    #[test]
    fn a_silent_gpu_keeps_its_place_and_what_was_known_of_it() {
        let before = inventory([whole(0), whole(1), whole(2)]);
        let mut now = inventory([whole(0), GpuListing::silent(1, "lost"), whole(2)]);
        let indices = |inventory: &Inventory| -> Vec<u32> {
            inventory.gpus.iter().map(|gpu| gpu.index).collect()
        };
        assert_eq!((gpus(&now), indices(&now)), (vec![0, 2], vec![0, 1, 2]));
        assert_eq!(now.troubles(), ["GPU 1: lost"]);
        assert_eq!(now.nameless().count(), 1);
        now.keep_silent(&before);
        assert_eq!((gpus(&now), indices(&now)), (vec![0, 1, 2], vec![0, 1, 2]));
        assert_eq!((now.nameless().count(), now.troubles().len()), (0, 1));
    }

    #[test]
    fn more_of_a_gpu_takes_the_place_of_less() {
        let mut known = inventory([whole(0), whole(1), whole(2)]);
        let mut more = whole(1);
        more.gpu.detail = Some(Detail::Full);
        more.devices[0].memory = Some(1);
        known.replace(more);
        assert_eq!(gpus(&known), [0, 1, 2]);
        assert_eq!(known.devices[1].memory, Some(1));
        assert!(known.knows(1, Detail::Full) && !known.knows(0, Detail::Size));
        known.note_silent(1, "late".into());
        known.note_silent(1, "later".into());
        assert_eq!(known.troubles(), ["GPU 1: late"]);
    }

    #[test]
    fn one_uuid_twice_is_one_device() {
        let mut twin = whole(1);
        twin.devices[0].uuid = uuid(0);
        let found = inventory([whole(0), twin, whole(2)]);
        assert_eq!(gpus(&found), [0, 2]);
        assert_eq!(found.problems.len(), 1);
    }
}
