//! create-cudawrap killed or failed at its system calls, and power cuts: the path always
//! runs. Each module is heavy in full size; `make torture` runs them one after the other.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

#[path = "../support/mod.rs"]
mod support;

mod filesystems;
mod powercut;

/// Each module starts a process for each processor: one module at a time.
static GROUPS: harness::Groups = harness::Groups::new();
