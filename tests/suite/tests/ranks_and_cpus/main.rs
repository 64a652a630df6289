//! Ranks of parallel programs, and the CPUs that a device's program runs on.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod cpu_binding;
mod cpu_masks;
mod launchers;
mod rank_calls;
mod rank_masks;
mod ranks;
mod shared_cores;
mod waiting_ranks;
