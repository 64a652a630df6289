use super::*;
use crate::lock::UNITS;

fn device(n: u32, slot: Option<u32>) -> Device {
    let kind = if slot.is_some() { "MIG" } else { "GPU" };
    let uuid = Uuid::parse(&format!("{kind}-{n:08x}-1111-5222-8333-444455556666")).unwrap();
    Device {
        gpu: n,
        slot,
        ..Device::by_uuid(uuid)
    }
}

fn inside(filter: &Filter, devices: &[Device]) -> Vec<u32> {
    let inventory = Inventory {
        devices: devices.to_vec(),
        ..Inventory::default()
    };
    let sorted = filter.sort(&inventory);
    devices
        .iter()
        .zip(sorted)
        .filter(|(_, out)| out.is_none())
        .map(|(d, _)| d.gpu)
        .collect()
}

#[test]
fn a_share_is_of_the_part_and_a_size_of_the_device() {
    let half = Units::whole().first(UNITS / 2).unwrap();
    let of = |share: &str, share_by_default, ours: &Units, memory| {
        let share = Some(share.parse().unwrap());
        Filter {
            share,
            share_by_default,
            ..Filter::default()
        }
        .portion(ours, memory)
    };
    let gib = |n: u64| Some(n << 30);
    for (share, by_default, ours, memory, portion) in [
        (
            "1/2",
            false,
            &Units::whole(),
            None,
            Portion::Units(UNITS / 2),
        ),
        ("1/2", false, &half, None, Portion::Units(UNITS / 4)),
        ("1/2", true, &half, None, Portion::All),
        ("1/4", true, &half, None, Portion::Units(UNITS / 4)),
        ("100%", false, &half, None, Portion::All),
        ("10G", false, &half, gib(40), Portion::Units(UNITS / 4)),
        ("20G", false, &half, gib(40), Portion::All),
        ("30G", false, &half, gib(40), Portion::TooLarge),
        ("30G", true, &half, gib(40), Portion::All),
        ("41G", false, &Units::whole(), gib(40), Portion::TooLarge),
        ("41G", true, &Units::whole(), gib(40), Portion::TooLarge),
        ("1G", false, &Units::whole(), None, Portion::TooLarge),
    ] {
        assert_eq!(
            of(share, by_default, ours, memory),
            portion,
            "{share} {by_default} {} {memory:?}",
            ours.count()
        );
    }
}

#[test]
fn the_type_decides_last() {
    let node = [device(0, Some(0)), device(1, None), device(2, Some(1))];
    let of = |kind| Filter {
        kind,
        ..Filter::default()
    };
    assert_eq!(inside(&of(Type::Auto), &node), [0, 2]);
    assert_eq!(
        inside(&of(Type::Auto), &node[1..2]),
        [1],
        "whole GPUs where there is no MIG device"
    );
    assert_eq!(inside(&of(Type::Gpu), &node), [1]);
    assert_eq!(inside(&of(Type::Mig), &node[1..2]), Vec::<u32>::new());
    assert_eq!(inside(&of(Type::Any), &node), [0, 1, 2]);
}

#[test]
fn auto_offers_whole_gpus_only_if_no_mig_device_is_in_the_pool() {
    let node = [device(0, Some(0)), device(1, None)];
    let grant = Filter {
        grant: Some(vec![node[1].uuid.clone()]),
        ..Filter::default()
    };
    assert_eq!(inside(&grant, &node), [1]);
    let list = Filter {
        allowed: Some(List::from([node[1].uuid.as_str()].into_iter())),
        ..Filter::default()
    };
    assert_eq!(inside(&list, &node), [1]);
    let excluded = Filter {
        excluded: List::from([node[0].uuid.as_str()].into_iter()),
        ..Filter::default()
    };
    assert_eq!(inside(&excluded, &node), [1]);
}

#[test]
fn an_empty_list_allows_nothing() {
    let node = [device(0, Some(0))];
    assert_eq!(
        inside(
            &Filter {
                allowed: Some(List::default()),
                ..Filter::default()
            },
            &node
        ),
        Vec::<u32>::new()
    );
}
