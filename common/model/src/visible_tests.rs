use super::*;
use crate::gpu_listing::GpuListing;
use crate::inventory::{Detail, Gpu};

fn uuid(kind: &str, n: u32) -> Uuid {
    Uuid::parse(&format!("{kind}-{n:08x}-1111-5222-8333-444455556666")).unwrap()
}

/// GPU 0 in MIG mode with two devices, GPU 1 not openable, GPU 2 whole.
fn inventory() -> Inventory {
    let gpu = |(index, mig, usable)| Gpu {
        index,
        uuid: Some(uuid("GPU", index + 0xa0)),
        name: None,
        pci_bus_id: None,
        mig,
        slots: 7,
        usable,
        detail: Some(Detail::Place),
    };
    let device = |uuid: Uuid, gpu: u32, slot: Option<u32>| Device {
        gpu,
        slot,
        gpu_uuid: Some(self::uuid("GPU", gpu + 0xa0)),
        instance: slot.map(|s| (s + 7, 0)),
        ..Device::by_uuid(uuid)
    };
    Inventory {
        gpus: [(0, true, true), (1, false, false), (2, false, true)]
            .map(gpu)
            .into(),
        devices: vec![
            device(uuid("MIG", 1), 0, Some(0)),
            device(uuid("MIG", 2), 0, Some(3)),
            device(uuid("GPU", 0xa1), 1, None),
            device(uuid("GPU", 0xa2), 2, None),
        ],
        ..Inventory::default()
    }
}

fn named(value: &str) -> Vec<String> {
    match Visible::parse(Some(OsStr::new(value))) {
        Visible::Entries(entries) => {
            let named = resolve(&entries, &inventory(), &|| false);
            assert_eq!(named.unclear, None);
            let devices = named.devices.into_iter();
            devices.map(|d| d.uuid.as_str()[..12].to_owned()).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn unset_empty_and_invalid() {
    assert_eq!(Visible::parse(None), Visible::Unset);
    #[rustfmt::skip]
    let cases = [
        "", " ", "-1", "NoDevFiles", "-1,0", "MIG-GPU-1234", "MIG-", ",0",
    ];
    for value in cases {
        assert_eq!(
            Visible::parse(Some(OsStr::new(value))),
            Visible::Nothing,
            "{value:?}"
        );
    }
    assert!(
        matches!(Visible::parse(Some(OsStr::from_bytes(b"0,\xff"))), Visible::Entries(e) if e.len() == 1)
    );
}

#[test]
fn of_a_number_the_leading_digits_count() {
    let index = |value: &str| Visible::parse(Some(OsStr::new(value)));
    for value in [
        "1", "+1", " 1", "1:2", "1 2", "1-2", "1;2", "1.0", "1x", "01",
    ] {
        assert_eq!(
            index(value),
            Visible::Entries(vec![Selector::Index(1)]),
            "{value:?}"
        );
    }
    for value in ["++1", "+ 1", "-1", ":1", "99999999999", "+"] {
        assert_eq!(index(value), Visible::Nothing, "{value:?}");
    }
}

#[test]
fn entries_are_resolved_as_cuda_does() {
    let [one, two] = [1, 2].map(|n| format!("MIG-{n:08x}"));
    let (first, second, gpu) = (uuid("MIG", 1), uuid("MIG", 2), uuid("GPU", 0xa0));
    #[rustfmt::skip]
    let cases = [
        // An index of a GPU in MIG mode stands for its MIG devices; GPUs that cannot be opened
        // do not count.
        ("0".to_owned(), vec![&*one, &two]),
        ("1".into(), vec!["GPU-000000a2"]),
        ("GPU-000000a2".into(), vec!["GPU-000000a2"]),
        // Abbreviations that fit several, and one that fits none.
        ("GPU-000000a".into(), vec![]), ("MIG-0000000".into(), vec![]), ("MIG-00000009".into(), vec![]),
        ("MIG-00000002".into(), vec![&two]), ("mig-00000002-".into(), vec![&two]),
        (second.to_string(), vec![&two]),
        // The old form on a new driver, and of another compute instance.
        (format!("MIG-{gpu}/10/0"), vec![&two]), (format!("MIG-{gpu}/10/1"), vec![]),
        // Cut at the first that is none, and no device twice.
        (format!("{second},7,{first}"), vec![&two]),
        (format!("{second},{gpu}"), vec![&two, &one]),
    ];
    for (value, expected) in cases {
        assert_eq!(named(&value), expected, "{value}");
    }
}

#[test]
fn full_uuids_are_all_of_the_entries_or_none() {
    let (a, b) = (uuid("MIG", 1), uuid("GPU", 2));
    let parse = |value: &str| Visible::parse(Some(OsStr::new(value)));
    assert_eq!(parse(&a.as_str().to_uppercase()).single_uuid(), Some(&a));
    let both = parse(&format!("{a},{b}"));
    assert_eq!(
        (both.single_uuid(), both.full_uuids()),
        (None, Some(vec![a.clone(), b]))
    );
    for value in [
        format!("{a},0"),
        format!("{a},MIG-00"),
        String::new(),
        "0".into(),
    ] {
        assert_eq!(
            (parse(&value).single_uuid(), parse(&value).full_uuids()),
            (None, None)
        );
    }
}

/// Whole GPUs, of which number 1 does not answer and number 4 may not be opened.
#[test]
fn an_index_at_a_silent_gpu_or_behind_one_names_nothing_for_certain() {
    let mut node = Inventory::default();
    for index in 0..5 {
        let listing = if index == 1 {
            GpuListing::silent(1, "lost")
        } else {
            GpuListing {
                gpu: Gpu {
                    uuid: Some(uuid("GPU", index)),
                    usable: index != 4,
                    ..Gpu::unasked(index)
                },
                devices: vec![Device {
                    gpu: index,
                    ..Device::by_uuid(uuid("GPU", index))
                }],
                silent: Vec::new(),
            }
        };
        node.add(listing);
    }
    let three = uuid("GPU", 3);
    #[rustfmt::skip]
    let cases = [
        // What is named, whether CUDA counts as NVML does, the devices, whether it is unclear.
        ("0", false, vec![0], false), ("1", false, vec![], true), ("2", false, vec![], true),
        ("2", true, vec![2], false), ("1", true, vec![], true), ("0,2", false, vec![0], true),
        ("3,0", true, vec![3, 0], false), ("9", true, vec![], false), ("9", false, vec![], true),
        (three.as_str(), false, vec![3], false),
    ];
    for (value, is_counted, gpus, is_unclear) in cases {
        let Visible::Entries(entries) = Visible::parse(Some(OsStr::new(value))) else {
            panic!("{value}");
        };
        let named = resolve(&entries, &node, &|| is_counted);
        let found: Vec<u32> = named.devices.iter().map(|device| device.gpu).collect();
        assert_eq!(
            (found, named.unclear.is_some()),
            (gpus, is_unclear),
            "{value}"
        );
    }
    node.gpus[1].usable = false;
    let behind = resolve(&[Selector::Index(1)], &node, &|| false);
    assert_eq!(
        behind.devices[0].gpu, 2,
        "CUDA does not count what it may not open"
    );
}

#[test]
fn a_uuid_that_nothing_answers_to_hides_the_next_ones_only_where_all_answer() {
    let list = format!("{},{}", uuid("GPU", 0xff), uuid("GPU", 0xa2));
    let Visible::Entries(entries) = Visible::parse(Some(OsStr::new(&list))) else {
        panic!("{list}");
    };
    let count = |inventory: &Inventory| resolve(&entries, inventory, &|| false).devices.len();
    let mut inventory = inventory();
    assert_eq!(count(&inventory), 0);
    inventory.silent = GpuListing::silent(3, "lost").silent;
    assert_eq!(count(&inventory), 1);
}
