//! Which device a call gets: any free one, one by number, or the one that a profile, a
//! size or a policy selects.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod connected;
mod counts_and_policies;
mod free_devices;
mod index;
mod models;
mod profiles_and_sizes;
