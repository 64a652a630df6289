//! Plans of create-cudawrap, carried out step by step through its library.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod case;
mod concurrent_changes;
mod every_stop;
mod last_copy;
mod layouts;
mod path_model;
