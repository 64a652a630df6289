//! The holder: a small process that keeps a reservation for a program that has not
//! started yet, and for as long as it runs. `start` makes one, `line` is its command
//! line, `life` is what it does, `looks` and `naming` find its program.

mod consent;
mod glance;
mod life;
mod line;
mod looks;
mod naming;
mod pauses;
mod start;
mod watch;

pub use consent::QUESTION;
pub use line::{Line, Tag, Until};
pub use start::{User, start};

use std::ffi::OsString;

/// The holder's main, `getgpu --holder ...`. It finds the lock on descriptor 3 and its
/// starter on descriptor 4.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    match Line::parse(arguments) {
        Some(line) => life::live(&line),
        None => 2,
    }
}
