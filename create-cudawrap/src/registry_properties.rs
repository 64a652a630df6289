//! What must hold for any paths in the note: every one comes back, and of a note that is cut
//! short all but the last.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use proptest::prelude::*;

use super::{parse, print};

/// Absolute paths, full of what the note has to escape.
fn path() -> impl Strategy<Value = PathBuf> {
    let byte = prop_oneof![1 => 1u8..=255, 4 => prop::sample::select(b"\\\n01234".to_vec())];
    prop::collection::vec(byte, 0..40)
        .prop_map(|bytes| PathBuf::from(OsString::from_vec([b"/", &bytes[..]].concat())))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_path_comes_back(paths in prop::collection::vec(path(), 0..6)) {
        prop_assert_eq!(parse(&print(&paths)), paths);
    }

    #[test]
    fn what_is_cut_short_loses_the_last_path_only(paths in prop::collection::vec(path(), 1..4), at in any::<prop::sample::Index>()) {
        let text = print(&paths);
        let whole = parse(&text[..at.index(text.len())]);
        let sound = whole.len().saturating_sub(1);
        prop_assert_eq!(&whole[..sound], &paths[..sound]);
    }
}
