//! The holder: a small process that keeps a reservation for a program that has not
//! started yet, and for as long as it runs. `start` makes one, `args` is its command
//! line, `lifecycle` is what it does, `proc_scanner` and `process_match` find its program.

mod args;
mod backoff;
mod consent;
mod exit_watch;
mod lifecycle;
mod proc_scanner;
mod process_match;
mod snapshot;
mod start;

pub use args::{HolderArgs, Tag, Until};
pub use consent::QUESTION;
pub use start::{User, start};

use std::ffi::OsString;

/// The holder's main, `getgpu --holder ...`. It finds the lock on descriptor 3 and its
/// starter on descriptor 4.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    match HolderArgs::parse(arguments) {
        Some(line) => lifecycle::live(&line),
        None => 2,
    }
}
