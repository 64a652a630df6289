//! /proc/PID/stat, in which a program chooses its name: none, or the process that the
//! bytes in front of the name say.
#![no_main]

use getgpu_common::procfs::Stat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(stat) = Stat::parse(bytes) {
        let open = bytes.iter().position(|byte| *byte == b'(').expect("a name");
        let pid = std::str::from_utf8(&bytes[..open])
            .expect("a number")
            .trim();
        assert_eq!(pid.parse(), Ok(stat.pid));
        let _ = stat.alive();
    }
});
