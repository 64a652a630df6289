use super::{Selector, Uuid};

const HEX: &str = "0d1e2f30-1111-2222-3333-444455556666";

#[test]
fn what_is_no_full_uuid_is_refused() {
    let short = &HEX[..35];
    #[rustfmt::skip]
    let cases = [
        "", "0", "GPU-", "GPU-0d1e", "MIG-", "MIG-0d1e", "-1", "all", "MIG-GPU-0d1e/1/0",
        &format!("MIG-{short}"), &format!("MIG-{HEX}0"), &format!("MIG-GPU-{HEX}/7"),
        &format!("MIG-GPU-{HEX}/7/0/1"), &format!("MIG-GPU-{HEX}/x/0"),
        &format!("MIG-{}", HEX.replace('-', "_")), &format!("GPU-{}", "a".repeat(36)),
        &format!("MIG-GPU-{HEX}/1000/0"), &format!("MIG-GPU-{HEX}/+1/0"),
        &format!("MIG-GPU-{HEX}/1/1000"), &format!("MIG-GPU-{HEX}//0"),
    ];
    for typed in cases {
        assert_eq!(Uuid::parse(typed), None, "{typed}");
    }
    for typed in &cases[10..] {
        assert_eq!(Selector::parse(typed), None, "{typed}");
    }
}

#[test]
fn entries_as_cuda_reads_them() {
    assert_eq!(Selector::parse("3"), Some(Selector::Index(3)));
    let prefix = |text: &str| Some(Selector::Prefix(text.into()));
    assert_eq!(Selector::parse("GPU-0D1e"), prefix("GPU-0d1e"));
    assert_eq!(Selector::parse("mig-0D1e"), prefix("MIG-0d1e"));
    for none in ["MIG-", "GPU-", "MIG-GPU-0d1e", "MIG-0d1x"] {
        assert_eq!(Selector::parse(none), None, "{none}");
    }
    assert_eq!(Selector::parse("99999999999"), None);
    assert_eq!(Selector::parse("NoDevFiles"), None);
    let (gpu, mig) = (format!("GPU-{HEX}"), format!("MIG-{HEX}"));
    let [old, other] = ["7/0", "7/1"].map(|place| format!("MIG-GPU-{HEX}/{place}"));
    #[rustfmt::skip]
    let cases = [
        ("GPU-0d", &gpu, true), ("GPU-1d", &gpu, false), ("MIG-0d", &mig, true),
        ("GPU-0d", &mig, false), (&old, &old, true), (&other, &old, false),
    ];
    for (entry, uuid, named) in cases {
        let (selector, uuid) = (Selector::parse(entry), Uuid::parse(uuid));
        assert_eq!(selector.unwrap().names(&uuid.unwrap()), named, "{entry}");
    }
}
