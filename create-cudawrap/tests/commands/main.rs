//! create-cudawrap as a command on real files: options, states of a path, refusals, Debian
//! packages.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

#[path = "../support/mod.rs"]
mod support;

mod debian_packages;
mod link_directories;
mod options;
mod refusals;
mod state_rows;
mod states;
