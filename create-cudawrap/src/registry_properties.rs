//! What must hold for any paths in the note and for any bytes in its place: every path
//! comes back, and garbage adds none that is not absolute.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use proptest::prelude::*;

use super::{parse, print};

/// Absolute paths, full of what the note has to escape.
fn path() -> impl Strategy<Value = PathBuf> {
    let byte = prop_oneof![
        1u8..=255,
        Just(b'\\'),
        Just(b'\n'),
        Just(b'0'),
        Just(b'1'),
        Just(b'2'),
        Just(b'3'),
        Just(b'4')
    ];
    prop::collection::vec(byte, 0..40)
        .prop_map(|bytes| PathBuf::from(OsString::from_vec([b"/", &bytes[..]].concat())))
}

proptest! {
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

    #[test]
    fn any_bytes_give_absolute_paths_that_stay_the_same(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'/'), Just(b'\\')], 0..300)) {
        let paths = parse(&bytes);
        prop_assert!(paths.iter().all(|path| path.as_os_str().as_bytes().starts_with(b"/")));
        prop_assert_eq!(parse(&print(&paths)), paths);
    }
}
