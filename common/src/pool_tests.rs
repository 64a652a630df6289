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
    let pool: Vec<u32> = filter.pool(&inventory).map(|device| device.gpu).collect();
    let outside = filter.sort(&inventory);
    assert_eq!(
        pool.len() + outside.iter().flatten().count(),
        devices.len(),
        "what is not in the pool has a reason"
    );
    pool
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
    assert_eq!(
        inside(&excluded, &node),
        Vec::<u32>::new(),
        "draining does not change the type"
    );
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

/// A MIG device of GPU 3 with everything told of it.
fn full_device() -> Device {
    Device {
        gpu_uuid: Uuid::parse("GPU-00000003-1111-5222-8333-444455556666"),
        instance: Some((9, 0)),
        profile: Some("1g.5gb".into()),
        memory: Some(5 << 30),
        ..device(3, Some(0))
    }
}

fn outside(filter: &Filter, device: &Device) -> Option<Outside> {
    let devices = vec![device.clone()];
    let inventory = Inventory {
        devices,
        ..Inventory::default()
    };
    filter.sort(&inventory)[0]
}

#[test]
fn each_reason_is_told_by_what_is_missing() {
    let good = full_device();
    let plain = Filter::default;
    assert_eq!(outside(&plain(), &good), None);
    let unusable = Device {
        usable: false,
        ..good.clone()
    };
    assert_eq!(outside(&plain(), &unusable), Some(Outside::NotUsable));
    let unknown = Device {
        memory: None,
        ..good.clone()
    };
    let share = |text: &str| Filter {
        share: Some(text.parse().unwrap()),
        ..plain()
    };
    let memory = |gib: u64| Filter {
        min_memory: Some(gib << 30),
        ..plain()
    };
    for (filter, device, reason) in [
        (memory(5), &good, None),
        (memory(6), &good, Some(Outside::TooSmall)),
        (memory(1), &unknown, Some(Outside::UnknownMemory)),
        (share("1/2"), &unknown, None),
        (share("1G"), &unknown, Some(Outside::UnknownMemory)),
        (share("5G"), &good, None),
        (share("6G"), &good, Some(Outside::TooSmall)),
    ] {
        assert_eq!(outside(&filter, device), reason, "{filter:?}");
    }
    // The least memory is that of the part.
    let half = |gib: u64| Filter {
        min_memory: Some(gib << 30),
        ..share("1/2")
    };
    assert_eq!(outside(&half(2), &good), None);
    assert_eq!(outside(&half(3), &good), Some(Outside::TooSmall));
    let profiles = |names: &[&str]| Filter {
        profiles: names.iter().map(|name| (*name).to_owned()).collect(),
        ..plain()
    };
    assert_eq!(outside(&profiles(&["2g.10gb", "1G.5GB"]), &good), None);
    let other = outside(&profiles(&["1g.5gb+me"]), &good);
    assert_eq!(other, Some(Outside::OtherProfile));
}

#[test]
fn a_gpu_is_named_by_index_uuid_or_instance() {
    let on = |name: &str| {
        let filter = Filter {
            gpus: vec![Selector::parse(name).unwrap()],
            ..Filter::default()
        };
        outside(&filter, &full_device())
    };
    for name in [
        "3",
        "GPU-00000003",
        "GPU-00000003-1111-5222-8333-444455556666",
        "MIG-00000003-1111",
        "MIG-GPU-00000003-1111-5222-8333-444455556666/9/0",
    ] {
        assert_eq!(on(name), None, "{name}");
    }
    for name in [
        "0",
        "GPU-00000004",
        "MIG-00000004",
        "MIG-GPU-00000003-1111-5222-8333-444455556666/9/1",
        "MIG-GPU-00000004-1111-5222-8333-444455556666/9/0",
    ] {
        assert_eq!(on(name), Some(Outside::OtherGpu), "{name}");
    }
}

#[test]
fn a_reason_names_the_file_that_is_behind_it() {
    let filter = Filter {
        places: [("allowed_file", "/x/ids:3"), ("share", "/x/config.toml:7")]
            .map(|(name, place)| (name, place.to_owned()))
            .into(),
        ..Filter::default()
    };
    let list = "not on the site's list of allowed devices (setting `allowed_file` in /x/ids:3)";
    assert_eq!(filter.reason(Outside::NotAllowed), list);
    let small = "smaller than asked for (setting `share` in /x/config.toml:7)";
    assert_eq!(filter.reason(Outside::TooSmall), small);
    for plain in [
        Outside::NotUsable,
        Outside::Excluded,
        Outside::NotGranted,
        Outside::WrongType,
        Outside::OtherGpu,
        Outside::OtherProfile,
    ] {
        assert_eq!(filter.reason(plain), plain.text());
    }
}

#[test]
fn sizes_are_asked_for_only_where_they_decide() {
    let detail = |share: Option<&str>, min_memory| {
        let share = share.map(|text| text.parse().unwrap());
        Filter {
            share,
            min_memory,
            ..Filter::default()
        }
        .detail()
    };
    assert_eq!(
        [detail(None, None), detail(Some("1/2"), None)],
        [Detail::Place; 2]
    );
    assert_eq!(
        [detail(Some("1G"), None), detail(None, Some(1))],
        [Detail::Size; 2]
    );
}
