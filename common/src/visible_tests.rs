use super::*;
use crate::inventory::Gpu;

fn uuid(kind: &str, n: u32) -> Uuid {
    Uuid::parse(&format!("{kind}-{n:08x}-1111-5222-8333-444455556666")).unwrap()
}

/// GPU 0 in MIG mode with two devices, GPU 1 not openable, GPU 2 whole.
fn inventory() -> Inventory {
    let gpu = |index, mig, usable| Gpu {
        index,
        uuid: Some(uuid("GPU", index + 0xa0)),
        name: None,
        pci_bus_id: None,
        mig,
        slots: 7,
        usable,
    };
    let device = |uuid: Uuid, gpu: u32, slot: Option<u32>| Device {
        uuid,
        gpu,
        slot,
        gpu_uuid: Some(self::uuid("GPU", gpu + 0xa0)),
        instance: slot.map(|s| (s + 7, 0)),
        profile: None,
        memory: None,
        usable: true,
        cpus: None,
    };
    Inventory {
        gpus: vec![
            gpu(0, true, true),
            gpu(1, false, false),
            gpu(2, false, true),
        ],
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
        Visible::Entries(entries) => resolve(&entries, &inventory())
            .iter()
            .map(|d| d.uuid.as_str()[..12].to_owned())
            .collect(),
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
fn entries_are_resolved_as_cuda_does() {
    let mig = |n| format!("MIG-{n:08x}");
    assert_eq!(
        named("0"),
        [mig(1), mig(2)],
        "an index of a GPU in MIG mode stands for its MIG devices"
    );
    assert_eq!(
        named("1"),
        ["GPU-000000a2"],
        "indices count only GPUs that can be opened"
    );
    assert_eq!(named("GPU-000000a2"), ["GPU-000000a2"]);
    assert_eq!(
        named("GPU-000000a"),
        Vec::<String>::new(),
        "an abbreviation that fits several"
    );
    assert_eq!(named("MIG-00000002"), [mig(2)]);
    assert_eq!(named("mig-00000002-"), [mig(2)]);
    assert_eq!(
        named("MIG-0000000"),
        Vec::<String>::new(),
        "an abbreviation that fits several"
    );
    assert_eq!(named("MIG-00000009"), Vec::<String>::new());
    assert_eq!(named(uuid("MIG", 2).as_str()), [mig(2)]);
    assert_eq!(
        named(&format!("MIG-{}/10/0", uuid("GPU", 0xa0))),
        [mig(2)],
        "the old form on a new driver"
    );
    assert_eq!(
        named(&format!("MIG-{}/10/1", uuid("GPU", 0xa0))),
        Vec::<String>::new(),
        "another compute instance of the GPU instance"
    );
    assert_eq!(
        named(&format!("{},7,{}", uuid("MIG", 2), uuid("MIG", 1))),
        [mig(2)],
        "cut at the first that is none"
    );
    assert_eq!(
        named(&format!("{},{}", uuid("MIG", 2), uuid("GPU", 0xa0))),
        [mig(2), mig(1)],
        "no device twice"
    );
}

#[test]
fn a_single_full_uuid_needs_no_nvml() {
    let parse = |text: &str| Visible::parse(Some(OsStr::new(text)));
    assert_eq!(
        parse(&uuid("MIG", 1).as_str().to_uppercase()).single_uuid(),
        Some(&uuid("MIG", 1))
    );
    assert_eq!(parse("0").single_uuid(), None);
    assert_eq!(parse("MIG-00000001").single_uuid(), None);
    assert_eq!(
        parse(&format!("{},{}", uuid("MIG", 1), uuid("MIG", 2))).single_uuid(),
        None
    );
    assert_eq!(parse(&format!("{},0", uuid("MIG", 1))).full_uuids(), None);
}

#[test]
fn full_uuids_are_all_of_the_entries_or_none() {
    let (a, b) = (uuid("MIG", 1), uuid("GPU", 2));
    let of = |value: &str| Visible::parse(Some(OsStr::new(value))).full_uuids();
    assert_eq!(of(&format!("{a},{b}")), Some(vec![a.clone(), b]));
    for value in [format!("{a},0"), format!("{a},MIG-00"), String::new()] {
        assert_eq!(of(&value), None, "{value}");
    }
}
