//! Which device a CUDA program gets: CUDA_VISIBLE_DEVICES read by the rules of the CUDA
//! driver. Drivers before 570 give exactly one MIG device, and newer ones put it first,
//! so the first is what counts here.

use sim_node::{Faults, Gpu, Node};
use std::collections::HashSet;

/// The UUID of the first device that the variable leaves visible to this user; `None`: no
/// device.
pub fn first_device(
    node: &Node,
    faults: &Faults,
    uid: u32,
    variable: Option<&str>,
) -> Option<String> {
    let view = View { node, faults, uid };
    let Some(list) = variable else {
        return view.default_device();
    };
    let mut seen = HashSet::new();
    for entry in list.split(',') {
        // The list ends at the first entry that names nothing.
        let Some(device) = view.named(entry.trim()) else {
            break;
        };
        if !seen.insert(device.clone()) {
            return None;
        }
    }
    view.named(list.split(',').next()?.trim())
}

struct View<'a> {
    node: &'a Node,
    faults: &'a Faults,
    uid: u32,
}

impl View<'_> {
    /// Without the variable: the first MIG device if there is one anywhere, else the
    /// first GPU.
    fn default_device(&self) -> Option<String> {
        let mig = self
            .node
            .gpus
            .iter()
            .find_map(|gpu| gpu.in_mig_mode().then(|| self.usable(gpu)).flatten());
        mig.or_else(|| self.node.gpus.iter().find_map(|gpu| self.usable(gpu)))
    }

    fn named(&self, entry: &str) -> Option<String> {
        if let Ok(index) = entry.parse::<usize>() {
            return self.usable(self.node.gpus.get(index)?);
        }
        if entry.starts_with("GPU-") {
            let mut hits = self
                .node
                .gpus
                .iter()
                .filter(|gpu| gpu.uuid.starts_with(entry));
            let gpu = hits.next()?;
            return if hits.next().is_none() {
                self.usable(gpu)
            } else {
                None
            };
        }
        let hit = self.node.mig_devices().find(|(gpu, device)| {
            device.uuid == entry || format!("MIG-{}/{}/{}", gpu.uuid, device.gi, device.ci) == entry
        });
        hit.map(|(_, device)| device.uuid.clone())
            .filter(|uuid| !self.faults.hides(uuid, self.uid))
    }

    /// The GPU itself, or its first MIG device that can be seen.
    fn usable(&self, gpu: &Gpu) -> Option<String> {
        if !gpu.in_mig_mode() {
            return Some(gpu.uuid.clone());
        }
        let mut devices = gpu.devices.iter().map(|device| &device.uuid);
        devices
            .find(|uuid| !self.faults.hides(uuid, self.uid))
            .cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_node::{Inventory, builtin};

    fn node(name: &str) -> Node {
        Node::new(&Inventory::parse(builtin(name).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn entries_as_cuda_reads_them() {
        let node = node("mixed");
        let (mig, whole) = (&node.gpus[0].devices, &node.gpus[2].uuid);
        let first = |list: &str| first_device(&node, &Faults::default(), 0, Some(list));
        assert_eq!(first(&mig[2].uuid).as_ref(), Some(&mig[2].uuid));
        assert_eq!(
            first(&format!("MIG-{}/9/0", node.gpus[0].uuid)).as_ref(),
            Some(&mig[2].uuid)
        );
        assert_eq!(
            first(&format!("{},{}", mig[1].uuid, mig[0].uuid)).as_ref(),
            Some(&mig[1].uuid)
        );
        assert_eq!(first("2").as_ref(), Some(whole));
        assert_eq!(first(&whole[..10]).as_ref(), Some(whole));
        assert_eq!(first("0").as_ref(), Some(&mig[0].uuid));
        assert_eq!(first("2,MIG-wrong,3").as_ref(), Some(whole));
        for nothing in [
            "",
            "-1",
            "NoDevFiles",
            "1",
            "4",
            "MIG-wrong,2",
            "2,2",
            "GPU-",
            &mig[0].uuid[..20],
        ] {
            assert_eq!(first(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn unset_means_the_first_mig_device_if_there_is_any() {
        let first = |name: &str| first_device(&node(name), &Faults::default(), 0, None);
        assert_eq!(
            first("mixed"),
            Some(node("mixed").gpus[0].devices[0].uuid.clone())
        );
        assert_eq!(first("gpus4"), Some(node("gpus4").gpus[0].uuid.clone()));
        assert_eq!(first("none"), None);
    }

    #[test]
    fn hidden_devices_are_not_there() {
        let node = node("a100x1");
        let uuid = |n: usize| node.gpus[0].devices[n].uuid.clone();
        let faults =
            Faults::parse(&format!("[[hide]]\ndevices = ['{}']\nuid = 5\n", uuid(0))).unwrap();
        assert_eq!(first_device(&node, &faults, 5, None), Some(uuid(1)));
        assert_eq!(first_device(&node, &faults, 6, None), Some(uuid(0)));
        assert_eq!(first_device(&node, &faults, 5, Some(&uuid(0))), None);
    }
}
