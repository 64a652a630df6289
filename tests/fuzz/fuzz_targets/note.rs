//! The record of wrapped paths, which a crash may cut short: absolute paths that stay the
//! same when they are written again.
#![no_main]

use std::os::unix::ffi::OsStrExt;

use create_cudawrap::registry::{parse, print};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let paths = parse(bytes);
    assert!(
        paths
            .iter()
            .all(|path| path.as_os_str().as_bytes().starts_with(b"/"))
    );
    assert_eq!(parse(&print(&paths)), paths);
});
