//! The lock file, and other users as attackers. They can take devices, since locks are
//! advisory; they cannot mislead, hang or run code in our processes.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod lock_attacks;
mod lock_file;
mod planted_files;
mod strangers;
