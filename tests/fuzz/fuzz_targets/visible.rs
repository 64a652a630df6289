//! CUDA_VISIBLE_DEVICES, which anybody can set to any bytes: the valid entries in front of
//! the first that is none, each of them a name of a device.
#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use getgpu_common::ident::Selector;
use getgpu_common::visible::Visible;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let visible = Visible::parse(Some(OsStr::from_bytes(bytes)));
    if let Visible::Entries(entries) = &visible {
        assert!(
            !entries.is_empty()
                && entries.len() <= 1 + bytes.iter().filter(|b| **b == b',').count()
        );
        let spelled: Vec<String> = entries.iter().map(Selector::to_string).collect();
        assert_eq!(
            Visible::parse(Some(OsStr::new(&spelled.join(",")))),
            visible
        );
    }
});
