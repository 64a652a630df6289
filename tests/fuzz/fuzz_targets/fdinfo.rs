//! The `lock:` lines of /proc/PID/fdinfo, and the word that passes them on: ranges that
//! are inside the file, and read back as they were written.
#![no_main]

use getgpu_linux::{OwnLock, Range, procfs::{fdinfo::{from_word, parse, to_word, within}}};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut locks: Vec<OwnLock> = text
        .lines()
        .filter_map(|line| parse(line, "READ"))
        .collect();
    assert_eq!(from_word(&to_word(&locks)), locks);
    locks.extend(from_word(text));
    for range in [
        Range::new(0, i64::MAX),
        Range::new(1 << 34, 720_720),
        Range::new(0, 1),
    ] {
        let wanted = range.expect("a range");
        for part in within(&locks, 131, wanted) {
            assert!(part.len() > 0 && part.start() >= wanted.start() && part.end() <= wanted.end());
        }
    }
});
