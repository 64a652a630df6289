//! Plans of create-cudawrap, carried out step by step through its library.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

// Copies of this program stand for cudawrap.
getgpu_linux::package_mark!("cudawrap");

mod case;
mod concurrent_changes;
mod last_copy;
mod layouts;
mod path_model;
