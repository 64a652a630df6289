//! Standard output: the answer and nothing else, with every write checked.
//! A full disk or a closed pipe is a failure like any other, never a panic.

use std::io::Write;

use getgpu_common::error::{Failure, Kind, reason};

/// Writes `text` and makes sure that it has arrived.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::new(Kind::LockPlace, format!("standard output: {}", reason(&error))))
}
