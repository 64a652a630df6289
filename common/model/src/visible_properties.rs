//! What must hold for any value of CUDA_VISIBLE_DEVICES on any node: the grant ends at
//! the first invalid entry, and what it resolves to is never outside the node, never
//! outside what is named, and never twice.

use std::ffi::OsStr;

use proptest::prelude::*;

use super::Visible;
use crate::ident::{Selector, Uuid, properties};
use crate::inventory::{Device, Gpu, Inventory};

fn uuid(number: u32, mig: bool) -> Uuid {
    let kind = if mig { "MIG" } else { "GPU" };
    Uuid::parse(&format!("{kind}-{number:08x}-0000-0000-0000-000000000000")).unwrap()
}

fn resolve(entries: &[Selector], inventory: &Inventory) -> Vec<Device> {
    super::resolve(entries, inventory, &|| false).devices
}

/// Up to four GPUs, each whole or with up to three MIG devices.
fn inventory() -> impl Strategy<Value = Inventory> {
    let gpu = (any::<bool>(), any::<bool>(), 0u32..4);
    prop::collection::vec(gpu, 0..5).prop_map(|gpus| {
        let mut all = Inventory::default();
        for ((mig, usable, slots), index) in gpus.into_iter().zip(0u32..) {
            let gpu_uuid = Some(uuid(index, false));
            let device = |uuid, slot: Option<u32>| Device {
                gpu: index,
                slot,
                gpu_uuid: gpu_uuid.clone(),
                instance: slot.map(|slot| (slot, 0)),
                usable,
                ..Device::by_uuid(uuid)
            };
            let slots = if mig { slots } else { 0 };
            if !mig {
                all.devices.push(device(uuid(index, false), None));
            }
            all.devices
                .extend((0..slots).map(|slot| device(uuid(index * 16 + slot, true), Some(slot))));
            let gpu_uuid = gpu_uuid.clone();
            all.gpus.push(Gpu {
                uuid: gpu_uuid,
                mig,
                slots,
                usable,
                ..Gpu::unasked(index)
            });
        }
        all
    })
}

/// An entry that may well name something on such a node.
fn entry() -> impl Strategy<Value = Selector> {
    let small = 0u32..5;
    prop_oneof![
        small.clone().prop_map(Selector::Index),
        (0u32..70, any::<bool>()).prop_map(|(number, mig)| Selector::Full(uuid(number, mig))),
        small
            .clone()
            .prop_map(|n| Selector::Prefix(format!("GPU-{n:08x}"))),
        (0u32..70).prop_map(|n| Selector::Prefix(format!("MIG-{n:08x}"))),
        (small.clone(), small).prop_map(|(n, gi)| Selector::OldMig {
            gpu: uuid(n, false),
            gi,
            ci: 0
        }),
        Just(Selector::Prefix("GPU-0".to_owned())),
        Just(Selector::Prefix("MIG-0".to_owned())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_grant_is_cut_at_the_first_invalid_entry(
        good in prop::collection::vec(properties::valid(), 0..5),
        bad in properties::text(),
        rest in prop::collection::vec(properties::text(), 0..4),
    ) {
        let (texts, entries): (Vec<String>, Vec<Selector>) = good.into_iter().unzip();
        let bad = bad.replace(',', "");
        let bad = if Selector::of_variable(&bad).is_none() { bad } else { format!("x{bad}") };
        let value = [&texts[..], &[bad], &rest].concat().join(",");
        let expected = if entries.is_empty() { Visible::Nothing } else { Visible::Entries(entries) };
        prop_assert_eq!(Visible::parse(Some(OsStr::new(&value))), expected);
    }

    #[test]
    fn a_grant_gives_the_nodes_devices_that_it_names_and_none_twice(
        inventory in inventory(),
        entries in prop::collection::vec(entry(), 0..6),
    ) {
        let devices = resolve(&entries, &inventory);
        for (place, device) in devices.iter().enumerate() {
            prop_assert!(inventory.devices.contains(device));
            prop_assert!(devices[..place].iter().all(|other| other.uuid != device.uuid));
        }
        // Each device comes from an entry of its own, and every entry behind one that
        // names nothing is void.
        let void = (0..entries.len()).find(|n| resolve(&entries[*n..=*n], &inventory).is_empty());
        let valid = &entries[..void.unwrap_or(entries.len())];
        let each: Vec<Device> = valid.iter().flat_map(|entry| resolve(std::slice::from_ref(entry), &inventory)).collect();
        prop_assert!(devices.iter().all(|device| each.contains(device)));
        prop_assert!(each.iter().all(|device| devices.contains(device)));
    }
}
