use super::{Selector, Uuid};

const HEX: &str = "0d1e2f30-1111-2222-3333-444455556666";

#[test]
fn the_three_full_forms_have_one_spelling() {
    for (typed, canonical) in [
        (format!("GPU-{HEX}"), format!("GPU-{HEX}")),
        (format!("gpu-{}", HEX.to_uppercase()), format!("GPU-{HEX}")),
        (
            format!(" MIG-{} ", HEX.to_uppercase()),
            format!("MIG-{HEX}"),
        ),
        (format!("MIG-GPU-{HEX}/7/0"), format!("MIG-GPU-{HEX}/7/0")),
    ] {
        assert_eq!(Uuid::parse(&typed).unwrap().as_str(), canonical, "{typed}");
    }
}

#[test]
fn what_is_no_full_uuid_is_refused() {
    let short = &HEX[..35];
    for typed in [
        "",
        "0",
        "GPU-",
        "GPU-0d1e",
        "MIG-",
        "MIG-0d1e",
        "-1",
        "all",
        "MIG-GPU-0d1e/1/0",
        &format!("MIG-{short}"),
        &format!("MIG-{HEX}0"),
        &format!("MIG-GPU-{HEX}/7"),
        &format!("MIG-GPU-{HEX}/7/0/1"),
        &format!("MIG-GPU-{HEX}/x/0"),
        &format!("MIG-{}", HEX.replace('-', "_")),
    ] {
        assert_eq!(Uuid::parse(typed), None, "{typed}");
    }
}

#[test]
fn entries_as_cuda_reads_them() {
    assert_eq!(Selector::parse("3"), Some(Selector::Index(3)));
    assert_eq!(
        Selector::parse("GPU-0D1e"),
        Some(Selector::Prefix("GPU-0d1e".into()))
    );
    assert_eq!(
        Selector::parse("mig-0D1e"),
        Some(Selector::Prefix("MIG-0d1e".into()))
    );
    for none in ["MIG-", "GPU-", "MIG-GPU-0d1e", "MIG-0d1x"] {
        assert_eq!(Selector::parse(none), None, "{none}");
    }
    assert_eq!(Selector::parse("99999999999"), None);
    assert_eq!(Selector::parse("NoDevFiles"), None);
    let gpu = Uuid::parse(&format!("GPU-{HEX}")).unwrap();
    assert!(Selector::parse("GPU-0d").unwrap().names(&gpu));
    assert!(!Selector::parse("GPU-1d").unwrap().names(&gpu));
    let mig = Uuid::parse(&format!("MIG-{HEX}")).unwrap();
    assert!(Selector::parse("MIG-0d").unwrap().names(&mig));
    assert!(!Selector::parse("GPU-0d").unwrap().names(&mig));
    let old = Uuid::parse(&format!("MIG-GPU-{HEX}/7/0")).unwrap();
    assert!(
        Selector::parse(&format!("MIG-GPU-{HEX}/7/0"))
            .unwrap()
            .names(&old)
    );
    assert!(
        !Selector::parse(&format!("MIG-GPU-{HEX}/7/1"))
            .unwrap()
            .names(&old)
    );
}

#[test]
fn what_is_nearly_an_entry_is_none() {
    for typed in [
        format!("GPU-{}", "a".repeat(36)),
        format!("MIG-{}", "0".repeat(36)),
        format!("MIG-GPU-{HEX}/1000/0"),
        format!("MIG-GPU-{HEX}/+1/0"),
        format!("MIG-GPU-{HEX}/1/1000"),
        format!("MIG-GPU-{HEX}//0"),
    ] {
        assert_eq!(Selector::parse(&typed), None, "{typed}");
    }
    let longest = format!("GPU-{}", "a".repeat(35));
    assert_eq!(
        Selector::parse(&longest),
        Some(Selector::Prefix(longest.clone()))
    );
}
