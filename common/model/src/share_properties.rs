//! What must hold for any text that is taken for a share: more than nothing, no more than
//! the whole, and read back as printed. However many parts a device is cut into, so many
//! fit and no more memory is given than there is.

use proptest::prelude::*;

use super::{Share, UNITS};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,20}/[0-9]{1,20}",
        "[0-9]{0,3}\\.[0-9]{0,20}%?",
        "[0-9]{1,3}(\\.[0-9]{1,20})? ?%",
        "[0-9.]{1,6}[kKmMgG]",
        any::<String>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_share_is_more_than_nothing_and_no_more_than_all(text in text(), total in any::<u64>()) {
        let Ok(share) = text.parse::<Share>() else { return Ok(()) };
        match share {
            Share::Fraction { of, parts } => prop_assert!(0 < of && of <= parts),
            Share::Bytes(bytes) => prop_assert!(0 < bytes),
        }
        if let Some(units) = share.units(Some(total)) {
            prop_assert!((1..=UNITS).contains(&units));
        }
        prop_assert!(share.memory(total) <= total);
        prop_assert_eq!(share.units(None).is_none(), share.needs_memory());
    }

    #[test]
    fn a_printed_share_is_read_back(text in text()) {
        if let Ok(share) = text.parse::<Share>() {
            prop_assert_eq!(share.to_string().parse(), Ok(share));
        }
    }

    #[test]
    fn as_many_equal_parts_fit_as_there_are(parts in 1u64..=848, total in any::<u64>()) {
        let share: Share = format!("1/{parts}").parse().unwrap();
        let units = share.units(None).unwrap();
        prop_assert_eq!(UNITS / units, i64::try_from(parts).unwrap());
        prop_assert!(u128::from(share.memory(total)) * u128::from(parts) <= u128::from(total));
    }

    #[test]
    fn a_size_that_a_device_has_is_units_for_no_more_than_fit(bytes in 1u64..1 << 40, total in 1u64..1 << 40) {
        match Share::Bytes(bytes).units(Some(total)) {
            None => prop_assert!(bytes > total),
            Some(units) => {
                prop_assert!(bytes <= total);
                let exact = i128::from(UNITS) * i128::from(bytes) / i128::from(total);
                prop_assert_eq!(i128::from(units), exact.max(1));
            }
        }
    }
}
