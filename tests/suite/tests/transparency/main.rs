//! A wrapped program runs exactly as if it had been started directly.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod job_control;
mod output_errors;
mod process_state;
mod resource_limits;
mod silent_starts;
