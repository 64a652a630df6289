//! What getgpu reserves: how long it lasts, who may reuse or release it, and the holder
//! process behind it.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod callers;
mod completions;
mod hold_option;
mod holder_process;
mod kept;
mod left_behind;
mod lifetime;
mod max_idle;
mod processor_limit;
mod running_program;
mod scripts;
mod tags;
