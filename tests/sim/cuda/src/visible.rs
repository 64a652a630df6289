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

    #[test]
    fn entries_as_cuda_reads_them() {
        let inventory = Inventory::parse(builtin("mixed").unwrap()).unwrap();
        let node = Node::new(&inventory).unwrap();
        let (gpu, mig) = (&node.gpus[0].uuid, &node.gpus[0].devices);
        let (mig, whole) = (
            [0, 1, 2].map(|n| mig[n].uuid.as_str()),
            node.gpus[2].uuid.as_str(),
        );
        let faults = Faults::parse(&format!("[[hide]]\ndevices = ['{}']\nuid = 5", mig[0]));
        let faults = faults.unwrap();
        let first = |uid, list| first_device(&node, &faults, uid, list);
        let (old_name, two) = (format!("MIG-{gpu}/9/0"), format!("{},{}", mig[1], mig[0]));
        #[rustfmt::skip]
        let cases = [
            (mig[2], mig[2]), (&old_name, mig[2]), (&two, mig[1]), ("2", whole),
            (&whole[..10], whole), ("0", mig[0]), ("2,MIG-wrong,3", whole),
        ];
        for (list, device) in cases {
            assert_eq!(first(0, Some(list)).as_deref(), Some(device), "{list}");
        }
        #[rustfmt::skip]
        let nothing = [
            "", "-1", "NoDevFiles", "1", "4", "MIG-wrong,2", "2,2", "GPU-", &mig[0][..20],
        ];
        for list in nothing {
            assert_eq!(first(0, Some(list)), None, "{list:?}");
        }
        // Without the variable; and what is hidden is not there.
        assert_eq!(
            [0, 5].map(|uid| first(uid, None).unwrap()),
            [mig[0], mig[1]]
        );
        assert_eq!(first(5, Some(mig[0])), None);
    }
}
