//! create-cudawrap killed or failed at its system calls, and power cuts: the path always
//! runs. Each module starts a process for each processor, so they run one after the other.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

#[path = "../support/mod.rs"]
mod support;

mod filesystems;
mod powercut;
