//! Times, sizes and shares as people type them: a value, or a reason. What is shown for a
//! time means the same, and no share is larger than a device.
#![no_main]

use getgpu_common::quantity;
use getgpu_common::share::Share;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(time) = quantity::time(text) {
        let _ = (quantity::waited(time), quantity::brief(time));
        assert_eq!(
            quantity::time(&quantity::time_text(time)),
            Ok(time),
            "{text:?}"
        );
    }
    if let Ok(size) = quantity::size(text) {
        assert!(
            quantity::size(&quantity::size_text(size)).is_ok(),
            "{text:?}"
        );
    }
    if let Ok(share) = text.parse::<Share>() {
        for total in [None, Some(0), Some(1), Some(40 << 30), Some(u64::MAX)] {
            assert!(
                share
                    .units(total)
                    .is_none_or(|units| (1..=720_720).contains(&units)),
                "{text:?}"
            );
        }
    }
});
