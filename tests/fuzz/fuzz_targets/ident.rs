//! Names of devices as people and drivers write them: what is parsed has one spelling, and
//! that is read back.
#![no_main]

use getgpu_common::ident::{Selector, Uuid};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some(selector) = Selector::parse(text) {
        let spelled = selector.to_string();
        assert_eq!(Selector::parse(&spelled), Some(selector));
    }
    if let Some(uuid) = Uuid::parse(text) {
        assert_eq!(Uuid::parse(uuid.as_str()), Some(uuid.clone()));
        assert!(uuid.as_str().is_ascii());
    }
});
