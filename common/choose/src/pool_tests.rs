use super::*;
use getgpu_model::{Gpu, UNITS};

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
    let outside = filter.classify(&inventory);
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
    let gib = |n: u64| Some(n << 30);
    #[rustfmt::skip]
    let cases = [
        ("1/2", false, &Units::whole(), None, Portion::Units(UNITS / 2)),
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
    ];
    for (text, by_default, own, memory, portion) in cases {
        let mut filter = share(text);
        filter.share_by_default = by_default;
        let what = format!("{text} {by_default} {} {memory:?}", own.count());
        assert_eq!(filter.portion(own, memory), portion, "{what}");
    }
}

fn filter(change: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    change(&mut filter);
    filter
}

#[test]
fn the_type_decides_last() {
    let node = [device(0, Some(0)), device(1, None), device(2, Some(1))];
    let of = |kind| filter(|f| f.kind = kind);
    assert_eq!(inside(&of(Type::Auto), &node), [0, 2]);
    // Whole GPUs where there is no MIG device.
    assert_eq!(inside(&of(Type::Auto), &node[1..2]), [1]);
    assert_eq!(inside(&of(Type::Gpu), &node), [1]);
    assert_eq!(inside(&of(Type::Mig), &node[1..2]), [0; 0]);
    assert_eq!(inside(&of(Type::Any), &node), [0, 1, 2]);
}

#[test]
fn auto_offers_whole_gpus_only_if_no_mig_device_is_in_the_pool() {
    let node = [device(0, Some(0)), device(1, None)];
    let list = |place: usize| DeviceList::from([node[place].uuid.as_str()].into_iter());
    let grant = filter(|f| f.grant = Some(vec![node[1].uuid.clone()]));
    assert_eq!(inside(&grant, &node), [1]);
    assert_eq!(inside(&filter(|f| f.allowed = Some(list(1))), &node), [1]);
    // Draining does not change the type; an empty list allows nothing.
    assert_eq!(inside(&filter(|f| f.excluded = list(0)), &node), [0; 0]);
    let none = filter(|f| f.allowed = Some(DeviceList::default()));
    assert_eq!(inside(&none, &node), [0; 0]);
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
    filter.classify(&inventory)[0]
}

fn share(text: &str) -> Filter {
    filter(|f| f.share = Some(text.parse().unwrap()))
}

#[test]
fn each_reason_is_told_by_what_is_missing() {
    let (good, mut unusable, mut unknown) = (full_device(), full_device(), full_device());
    (unusable.usable, unknown.memory) = (false, None);
    let memory = |gib: u64| filter(|f| f.min_memory = Some(gib << 30));
    // The least memory is that of the part.
    let half = |gib: u64| Filter {
        min_memory: Some(gib << 30),
        ..share("1/2")
    };
    let profiles =
        |names: &[&str]| filter(|f| f.profiles = names.iter().map(|n| (*n).to_owned()).collect());
    #[rustfmt::skip]
    let cases = [
        (Filter::default(), &good, None),
        (Filter::default(), &unusable, Some(Outside::NotUsable)),
        (memory(5), &good, None),
        (memory(6), &good, Some(Outside::TooSmall)),
        (memory(1), &unknown, Some(Outside::UnknownMemory)),
        (share("1/2"), &unknown, None),
        (share("1G"), &unknown, Some(Outside::UnknownMemory)),
        (share("5G"), &good, None),
        (share("6G"), &good, Some(Outside::TooSmall)),
        (half(2), &good, None),
        (half(3), &good, Some(Outside::TooSmall)),
        (profiles(&["2g.10gb", "1G.5GB"]), &good, None),
        (profiles(&["1g.5gb+me"]), &good, Some(Outside::OtherProfile)),
    ];
    for (filter, device, reason) in cases {
        assert_eq!(outside(&filter, device), reason, "{filter:?}");
    }
}

#[test]
fn a_gpu_is_named_by_index_uuid_or_instance() {
    let other = Some(Outside::OtherGpu);
    #[rustfmt::skip]
    let cases = [
        ("3", None),
        ("GPU-00000003", None),
        ("GPU-00000003-1111-5222-8333-444455556666", None),
        ("MIG-00000003-1111", None),
        ("MIG-GPU-00000003-1111-5222-8333-444455556666/9/0", None),
        ("0", other),
        ("GPU-00000004", other),
        ("MIG-00000004", other),
        ("MIG-GPU-00000003-1111-5222-8333-444455556666/9/1", other),
        ("MIG-GPU-00000004-1111-5222-8333-444455556666/9/0", other),
    ];
    for (name, reason) in cases {
        let filter = filter(|f| f.gpus = vec![Selector::parse(name).unwrap()]);
        assert_eq!(outside(&filter, &full_device()), reason, "{name}");
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
    #[rustfmt::skip]
    let cases = [
        Outside::NotUsable, Outside::Excluded, Outside::NotGranted, Outside::WrongType,
        Outside::OtherGpu, Outside::OtherProfile,
    ];
    for plain in cases {
        assert_eq!(filter.reason(plain), plain.text());
    }
}

#[test]
fn sizes_are_asked_for_only_where_they_decide() {
    let memory = filter(|f| f.min_memory = Some(1));
    assert_eq!(
        [Filter::default(), share("1/2")].map(|f| f.detail()),
        [Detail::Place; 2]
    );
    assert_eq!([share("1G"), memory].map(|f| f.detail()), [Detail::Size; 2]);
    let model = filter(|f| f.models = vec!["H100".to_owned()]);
    assert_eq!(model.detail(), Detail::Name);
}

#[test]
fn a_model_is_that_of_the_gpu_that_a_device_is_on() {
    let gpu = |index, name: Option<&str>| Gpu {
        name: name.map(str::to_owned),
        ..Gpu::unasked(index)
    };
    let inventory = Inventory {
        gpus: vec![gpu(0, Some("NVIDIA A100-SXM4-40GB")), gpu(1, None)],
        devices: vec![device(0, Some(0)), device(1, None)],
        ..Inventory::default()
    };
    let asked = |models: &[&str]| {
        let models = models.iter().map(|model| (*model).to_owned()).collect();
        filter(|f| (f.kind, f.models) = (Type::Any, models)).classify(&inventory)
    };
    let (other, unknown) = (Some(Outside::OtherModel), Some(Outside::UnknownModel));
    assert_eq!(asked(&["h100", "a100"]), [None, unknown]);
    assert_eq!(asked(&["H100"]), [other, unknown]);
    assert_eq!(asked(&[]), [None, None]);
}
