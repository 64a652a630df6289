//! What must hold for any text that is taken for a time or a size: bounded, read back as
//! printed, and nothing accepted that the grammar does not have.

use std::time::Duration;

use proptest::prelude::*;

use super::{LONGEST, brief, size, size_text, time, time_text, waited};

/// The grammar of sizes, written once more: number, blanks, unit.
fn is_size(text: &str) -> bool {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let points = number.matches('.').count();
    let unit = unit.trim().to_ascii_lowercase();
    let units = [
        "", "b", "k", "kb", "kib", "m", "mb", "mib", "g", "gb", "gib", "t", "tb", "tib",
    ];
    points <= 1 && number.len() > points && units.contains(&unit.as_str())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_size_is_read_if_and_only_if_it_is_one(text in prop_oneof!["[0-9.]{0,6} ?[kKmMgGtTbBiIxE]{0,4}", any::<String>()]) {
        prop_assert_eq!(size(&text).is_ok(), is_size(&text), "{:?}", size(&text));
    }

    #[test]
    fn a_size_never_overflows(text in "[0-9]{0,30}\\.?[0-9]{0,30}[kmgt]?") {
        if let Ok(bytes) = size(&text) {
            prop_assert!(bytes < 1 << 60);
        }
    }

    #[test]
    fn a_printed_size_is_read_back(bytes in prop_oneof![0u64..1 << 60, (0u64..1 << 30).prop_map(|m| m << 20), 0u64..5000]) {
        prop_assert_eq!(size(&size_text(bytes)), Ok(bytes));
        prop_assert_eq!(size(&bytes.to_string()), Ok(bytes));
    }

    #[test]
    fn a_time_is_never_too_long_and_its_words_fit_a_line(text in prop_oneof!["[0-9.]{0,25} ?[a-zµ]{0,7}( [0-9]{1,9}[a-z]{1,3})?", any::<String>()]) {
        match time(&text) {
            Ok(duration) => {
                prop_assert!(duration <= LONGEST);
                prop_assert!(waited(duration).len() < 12 && brief(duration).len() < 12);
            }
            Err(why) => prop_assert!(why.contains("is not a time")),
        }
    }

    #[test]
    fn a_printed_time_is_read_back(secs in 0..LONGEST.as_secs(), nanoseconds in prop_oneof![0u32..1_000_000_000, Just(0)]) {
        let duration = Duration::new(secs, nanoseconds);
        let text = time_text(duration);
        prop_assert_eq!(time(&text), Ok(duration));
        prop_assert_eq!(time(text.trim_end_matches('s')), Ok(duration));
    }
}
