//! Waiting: first come, first served across users and programs. Only the head of the queue
//! asks NVML.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod interruptions;
mod keeps;
mod names;
mod order;
mod several;
mod waiters;
mod wanted;
mod worked_on;
