//! Many programs at once: they fill the machine, and their figures need it. So they are in
//! a binary of their own.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod launches;
mod loops;
mod packing;
mod soak;
mod storms;
