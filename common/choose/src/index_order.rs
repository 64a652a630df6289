//! What INDEX counts: the devices of the grant, else those of the node. A GPU or device that
//! does not answer keeps its index, so that those behind it keep theirs; where it is not known
//! how many it would have, nothing behind it has one. Pure.

use std::iter;

use crate::pool::{Filter, Outside};
use getgpu_model::{Device, Inventory, Silent, Uuid};
use getgpu_settings::Type;

/// What has an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Indexed<'a> {
    /// A device, and why it cannot be chosen if that is so.
    Device(&'a Device, Option<Outside>),
    /// A GPU, or a MIG device, that does not answer.
    Silent(&'a Silent),
}

/// Everything that has an index, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexOrder<'a> {
    /// What has an index, by index.
    pub places: Vec<Indexed<'a>>,
    /// Nothing from here on has one, since it is not known how many devices this GPU has.
    pub ends_at: Option<&'a Silent>,
}

impl<'a> IndexOrder<'a> {
    /// The order of what `filter` leaves. An excluded device has an index, so that draining a
    /// device moves no other. For a filter without what narrows a request.
    pub fn of(filter: &Filter, inventory: &'a Inventory) -> Self {
        let devices = inventory.devices.iter().zip(filter.classify(inventory));
        let mut devices: Vec<(&Device, Option<Outside>)> = devices
            .filter(|(_, out)| matches!(out, None | Some(Outside::Excluded)))
            .collect();
        let device = |(device, out): (&'a Device, _)| Indexed::Device(device, out);
        if filter.grant.is_some() {
            devices.sort_by_key(|(device, _)| filter.place_in_grant(&device.uuid));
            return Self {
                places: devices.into_iter().map(device).collect(),
                ends_at: None,
            };
        }
        let mut order = Self::default();
        let mut devices = devices.into_iter().peekable();
        for silent in inventory.nameless() {
            let before =
                |(device, _): &(&Device, _)| (device.gpu, device.slot) < (silent.gpu, silent.slot);
            while let Some(next) = devices.next_if(before) {
                order.places.push(device(next));
            }
            let Some(indices) = indices(silent, filter, inventory) else {
                order.ends_at = Some(silent);
                return order;
            };
            let silent = iter::repeat_n(Indexed::Silent(silent), indices);
            order.places.extend(silent);
        }
        order.places.extend(devices.map(device));
        order
    }

    /// The index of a device, if it has one.
    pub fn of_device(&self, uuid: &Uuid) -> Option<usize> {
        let mut places = self.places.iter();
        places.position(|place| matches!(place, Indexed::Device(one, _) if one.uuid == *uuid))
    }
}

/// How many indices `silent` has, one or none, if that is known. A GPU that does not answer may be in
/// MIG mode, with any number of devices, unless no other one is.
fn indices(silent: &Silent, filter: &Filter, inventory: &Inventory) -> Option<usize> {
    let gpu = inventory.gpus.iter().find(|gpu| gpu.index == silent.gpu);
    if gpu.is_some_and(|gpu| !gpu.usable) {
        return Some(0);
    }
    if let Some(allowed) = &filter.allowed {
        // A list of which each entry is a device that answers names no other.
        let is_complete = allowed.without(&inventory.devices).is_empty();
        return is_complete.then_some(0);
    }
    let any_mig = inventory.gpus.iter().any(|gpu| gpu.mig);
    match (filter.kind, silent.slot) {
        (Type::Gpu, Some(_)) => Some(0),
        (_, Some(_)) => Some(1),
        (Type::Mig, None) => None,
        (_, None) => (!any_mig).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use getgpu_model::Gpu;
    use getgpu_model::GpuListing;
    use getgpu_settings::DeviceList;

    fn uuid(gpu: u32, slot: Option<u32>) -> Uuid {
        let kind = if slot.is_some() { "MIG" } else { "GPU" };
        let number = gpu * 16 + slot.unwrap_or(0);
        Uuid::parse(&format!("{kind}-{number:08x}-1111-5222-8333-444455556666")).unwrap()
    }

    /// GPUs with so many MIG devices; none: whole ones.
    fn inventory(gpus: &[Result<Option<u32>, &str>]) -> Inventory {
        let mut inventory = Inventory::default();
        for (index, gpu) in (0..).zip(gpus) {
            let Ok(slots) = *gpu else {
                inventory.add(GpuListing::silent(index, gpu.unwrap_err()));
                continue;
            };
            let places = slots.map_or_else(|| vec![None], |slots| (0..slots).map(Some).collect());
            let device = |slot| Device {
                gpu: index,
                slot,
                ..Device::by_uuid(uuid(index, slot))
            };
            inventory.add(GpuListing {
                gpu: Gpu {
                    mig: slots.is_some(),
                    ..Gpu::unasked(index)
                },
                devices: places.into_iter().map(device).collect(),
                silent: Vec::new(),
            });
        }
        inventory
    }

    /// The GPU of each index; none: one that does not answer.
    fn order(filter: &Filter, inventory: &Inventory) -> (Vec<Option<u32>>, bool) {
        let order = IndexOrder::of(filter, inventory);
        let gpu = |place: &Indexed<'_>| match place {
            Indexed::Device(device, _) => Some(device.gpu),
            Indexed::Silent(_) => None,
        };
        (
            order.places.iter().map(gpu).collect(),
            order.ends_at.is_some(),
        )
    }

    fn of_type(kind: Type) -> Filter {
        Filter {
            kind,
            ..Filter::default()
        }
    }

    #[test]
    fn a_silent_gpu_moves_no_index() {
        let (whole, mig, silent) = (Ok(None), |slots| Ok(Some(slots)), Err("lost"));
        #[rustfmt::skip]
        let cases = [
            (Type::Auto, vec![whole, silent, whole], vec![Some(0), None, Some(2)], false),
            (Type::Auto, vec![whole, whole, silent], vec![Some(0), Some(1), None], false),
            (Type::Any, vec![silent, whole], vec![None, Some(1)], false),
            (Type::Auto, vec![mig(2), silent, mig(2)], vec![Some(0), Some(0)], true),
            (Type::Auto, vec![mig(1), mig(1), silent], vec![Some(0), Some(1)], true),
            (Type::Gpu, vec![whole, silent, mig(1), whole], vec![Some(0)], true),
            (Type::Mig, vec![silent, whole], vec![], true),
            (Type::Auto, vec![whole, whole], vec![Some(0), Some(1)], false),
        ];
        for (kind, gpus, expected, ends) in cases {
            let found = order(&of_type(kind), &inventory(&gpus));
            assert_eq!(found, (expected, ends), "{kind:?} {gpus:?}");
        }
    }

    #[test]
    fn a_silent_mig_device_has_one_index() {
        let mut node = inventory(&[Ok(Some(3)), Ok(Some(1))]);
        let gone = node.devices.remove(1);
        node.silent.push(Silent {
            gpu: 0,
            slot: gone.slot,
            reason: "lost".into(),
        });
        let expected = vec![Some(0), None, Some(0), Some(1)];
        assert_eq!(order(&of_type(Type::Auto), &node), (expected, false));
        let none = (Vec::new(), false);
        assert_eq!(order(&of_type(Type::Gpu), &node), none);
    }

    #[test]
    fn what_is_not_ours_has_none() {
        let mut node = inventory(&[Ok(None), Err("no permission"), Ok(None)]);
        node.gpus[1].usable = false;
        let all = (vec![Some(0), Some(2)], false);
        assert_eq!(order(&Filter::default(), &node), all);
        node.gpus[1].usable = true;
        let (known, other) = (uuid(2, None).to_string(), uuid(7, None).to_string());
        for (entries, expected) in [
            (vec![known.as_str()], (vec![Some(2)], false)),
            (vec![known.as_str(), other.as_str()], (vec![], true)),
        ] {
            let filter = Filter {
                allowed: Some(DeviceList::from(entries.iter().copied())),
                ..Filter::default()
            };
            assert_eq!(order(&filter, &node), expected, "{entries:?}");
        }
        let filter = Filter {
            grant: Some(vec![uuid(2, None), uuid(0, None)]),
            ..Filter::default()
        };
        assert_eq!(order(&filter, &node), (vec![Some(2), Some(0)], false));
    }
}
