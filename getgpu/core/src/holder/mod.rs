//! The holder: a small process that keeps a reservation for a program that has not
//! started yet, and for as long as it runs. `start` makes one, `lifecycle` is
//! what it does, `own_process` what it does about itself, `held_lock` what it holds,
//! `proc_scanner` and `process_match` find its program, and `background` names programs that
//! never are it.

mod background;
mod backoff;
pub mod exit_watch;
mod held_lock;
mod lifecycle;
mod own_process;
mod proc_scanner;
mod process_match;
mod start;

pub use start::{Started, start};

use std::ffi::OsString;

use getgpu_lock::HolderArgs;

/// The holder's main, `getgpu --holder ...`. It finds the lock on descriptor 3 and its
/// starter on descriptor 4.
pub fn main(words: &[OsString]) -> i32 {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match HolderArgs::parse(words.iter().map(String::as_str)) {
        Some(args) => lifecycle::run(&args),
        None => 2,
    }
}
