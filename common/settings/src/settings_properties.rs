//! What must hold for any settings file and any list of devices: no panic, a place with
//! every mistake, no line that spoils another, and a value that is shown can be written
//! into a file and means the same there.

use std::path::Path;

use proptest::prelude::*;

use getgpu_model::{Device, Selector, Uuid};

use crate::allowed::DeviceList;
use crate::file::File;
use crate::{Settings, keys};

const HEX: &str = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";

/// Texts near the names of devices, and any others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ \t]{0,2}(?i:GPU-|MIG-|MIG-GPU-|-)?[0-9a-fA-Fg]{0,12}(-[0-9a-fA-F]{0,12}){0,5}(/[0-9+]{0,5}){0,3}[ \n]?",
        3 => valid().prop_map(|(text, _)| text),
        1 => "[0-9]{1,12}",
        1 => any::<String>(),
    ]
}

/// A valid name of a device as it may be typed, and what it means.
fn valid() -> impl Strategy<Value = (String, Selector)> {
    let name = prop_oneof![
        any::<u32>().prop_map(|index| format!(" {index}")),
        HEX.prop_map(|hex| format!("gPu-{hex} ")),
        HEX.prop_map(|hex| format!("\tMiG-{hex}")),
        "[0-9a-f-]{1,35}".prop_map(|part| format!("GPU-{part}")),
        "[0-9a-f-]{1,35}".prop_map(|part| format!("mig-{part}")),
        (HEX, 0u32..1000, 0u32..1000)
            .prop_map(|(hex, gi, ci)| format!("mig-gpu-{hex}/{gi:02}/{ci:03}")),
    ];
    name.prop_map(|text| {
        let selector = Selector::parse(&text).unwrap();
        (text, selector)
    })
}

/// What may be typed as a value: right for some setting, nearly so, or anything.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "auto|mig|gpu|any|random|first|pack|all|none|warn|fail|run|same|true|false|1|0|forever",
        "[0-9]{1,9}(\\.[0-9]{1,9})?( ?[smhd]|ms|us|ns|[kKMGT]i?B?|%|/[0-9]{1,9})?",
        "[0-9]{1,3}(,[0-9]{1,3}){0,3}",
        "/[a-z/ ]{0,10}",
        text(),
        any::<String>(),
    ]
}

/// A line of a file: a setting with some value of TOML, a table, or anything.
fn line() -> impl Strategy<Value = String> {
    let names: Vec<&str> = keys::all().map(|key| key.name).collect();
    let name = prop::sample::select(names);
    prop_oneof![
        (name.clone(), value()).prop_map(|(name, value)| format!("{name} = {value:?}")),
        (name, "[0-9.+_ex-]{0,8}|true|\\[(\"[a-z0-9]{0,4}\",? ?){0,3}\\]|\\{ a = [0-9] \\}|'[^']{0,8}'|#")
            .prop_map(|(n, v)| format!("{n} = {v}")),
        "\\[{1,2}program(\\.\"?[a-z*?.]{0,6}\"?)?\\]{1,2}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_file_is_read_or_told_with_line_and_column(lines in prop::collection::vec(line(), 0..6)) {
        let path = Path::new("/f");
        let text = lines.join("\n");
        match File::parse(path, &text) {
            Ok(file) => {
                let count = text.matches('\n').count() + 1;
                for entry in file.entries.iter().chain(file.tables.iter().flat_map(|table| &table.entries)) {
                    for place in [&entry.place, &entry.value_place] {
                        let numbers: Vec<usize> = place.trim_start_matches("/f:").split(':').map(|n| n.parse().unwrap()).collect();
                        prop_assert!(numbers.len() == 2 && (1..=count).contains(&numbers[0]) && numbers[1] > 0, "{}", place);
                    }
                    if let (Some(key), Some(texts)) = (keys::find(&entry.name), &entry.texts) {
                        let _ = (key.put)(&mut Settings::default(), texts);
                    }
                }
            }
            Err(failure) => prop_assert!(failure.message.starts_with("/f:"), "{}", failure),
        }
    }

    #[test]
    fn a_value_that_is_shown_can_be_written_into_a_file(key in 0..keys::all().count(), texts in prop::collection::vec(value(), 1..3)) {
        let key = keys::all().nth(key).unwrap();
        let mut settings = Settings::default();
        if (key.put)(&mut settings, &texts).is_err() {
            prop_assert_eq!(settings, Settings::default(), "what is refused changes nothing");
            return Ok(());
        }
        let shown = format!("{} = {}  # from\n", key.name, (key.show)(&settings));
        let file = File::parse(Path::new("/f"), &shown).map_err(|failure| TestCaseError::fail(format!("{shown}{failure}")))?;
        let mut again = Settings::default();
        prop_assert_eq!((key.put)(&mut again, file.entries[0].texts.as_ref().unwrap()), Ok(()), "{}", &shown);
        prop_assert_eq!(again, settings, "{}", shown);
    }

    #[test]
    fn a_bad_line_of_the_list_spoils_no_other(
        good in prop::collection::vec(valid(), 0..4), bad in prop::collection::vec(text(), 0..4), comment in "[^\n]{0,9}",
    ) {
        let full = |selector: &Selector| matches!(selector, Selector::Full(_) | Selector::OldMig { .. });
        let bad: Vec<String> = bad.into_iter().filter(|t| !Selector::parse(t).is_some_and(|s| full(&s))).collect();
        let mut text = String::new();
        for (entry, _) in &good {
            text.push_str(&format!("{entry} # {comment}\n\n"));
        }
        bad.iter().for_each(|line| text.push_str(&format!("{}\n", line.replace(['\n', '#'], " "))));
        let list = DeviceList::from(text.lines());
        let other = Uuid::parse("GPU-ffffffff-ffff-ffff-ffff-fffffffffffe").unwrap();
        for (_, selector) in good.iter().filter(|(_, selector)| full(selector)) {
            let uuid = Uuid::parse(&selector.to_string()).unwrap();
            let of_gpu = Device { gpu_uuid: Some(uuid.clone()), ..Device::by_uuid(other.clone()) };
            prop_assert!(uuid.is_mig() || list.names(&of_gpu), "{}", text);
            prop_assert!(list.names(&Device::by_uuid(uuid)), "{}", text);
            if let Selector::OldMig { gpu, gi, ci } = selector {
                let (gpu_uuid, instance) = (Some(gpu.clone()), Some((*gi, *ci)));
                let there = Device { gpu_uuid, instance, ..Device::by_uuid(other.clone()) };
                prop_assert!(list.names(&there), "{}", text);
            }
        }
        let elsewhere = Device { instance: Some((1, 1)), ..Device::by_uuid(other) };
        prop_assert!(!list.names(&elsewhere), "{}", text);
        let not_full = good.iter().filter(|(_, selector)| !full(selector)).count();
        prop_assert!(list.bad.len() >= not_full && list.bad.len() <= not_full + bad.len() + 20 * bad.len());
    }
}
