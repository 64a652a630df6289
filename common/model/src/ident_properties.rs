//! What must hold for any text that is taken for the name of a device: parsed, it has one
//! spelling, and that is read back.

use proptest::prelude::*;

use super::{Selector, Uuid};

/// Texts near the grammar, and any others.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ \t]{0,2}(?i:GPU-|MIG-|MIG-GPU-|-)?[0-9a-fA-Fg]{0,12}(-[0-9a-fA-F]{0,12}){0,5}(/[0-9+]{0,5}){0,3}[ \n]?",
        3 => valid().prop_map(|(text, _)| text),
        1 => "[0-9]{1,12}",
        1 => any::<String>(),
    ]
}

fn hex() -> impl Strategy<Value = String> {
    "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
}

/// A valid entry as a user may type it, and what it means.
pub(crate) fn valid() -> impl Strategy<Value = (String, Selector)> {
    let uuid = |text: String| Selector::Full(Uuid(text));
    prop_oneof![
        any::<u32>().prop_map(|index| (format!(" {index}"), Selector::Index(index))),
        hex().prop_map(move |hex| (
            format!("gPu-{hex} "),
            uuid(format!("GPU-{}", hex.to_lowercase()))
        )),
        hex().prop_map(move |hex| (
            format!("\tMiG-{hex}"),
            uuid(format!("MIG-{}", hex.to_lowercase()))
        )),
        "[0-9a-f-]{1,35}".prop_map(|part| (
            format!("GPU-{part}"),
            Selector::Prefix(format!("GPU-{part}"))
        )),
        "[0-9a-f-]{1,35}".prop_map(|part| (
            format!("mig-{part}"),
            Selector::Prefix(format!("MIG-{part}"))
        )),
        (hex(), 0u32..1000, 0u32..1000).prop_map(|(hex, gi, ci)| {
            let gpu = Uuid(format!("GPU-{}", hex.to_lowercase()));
            (
                format!("mig-gpu-{hex}/{gi:02}/{ci:03}"),
                Selector::OldMig { gpu, gi, ci },
            )
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_entry_is_what_it_says((text, selector) in valid()) {
        prop_assert_eq!(Selector::parse(&text), Some(selector));
    }

    #[test]
    fn what_is_read_has_one_spelling_that_is_read_back(text in text()) {
        if let Some(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Some(selector.clone()));
        }
        if let Some(uuid) = Uuid::parse(&text) {
            prop_assert_eq!(Uuid::parse(uuid.as_str()), Some(uuid.clone()));
            prop_assert!(uuid.as_str().is_ascii() && uuid.as_str().len() <= "MIG-GPU-".len() + 36 + "/123/123".len());
            prop_assert_eq!(uuid.is_mig(), text.trim().to_ascii_uppercase().starts_with("MIG-"));
            prop_assert!(Selector::parse(&text).unwrap().names(&uuid));
        }
    }

    #[test]
    fn letters_and_blanks_make_no_difference(text in text()) {
        let trimmed = text.trim().to_ascii_uppercase();
        prop_assert_eq!(Uuid::parse(&text), Uuid::parse(&trimmed));
    }
}
