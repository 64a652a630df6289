//! The simulated library as a caller of NVML meets it. Each test runs on a node of its own
//! in a child process, since the library has one state for each process.
#![allow(
    unsafe_code,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a panic is a failed test; C functions are called, and SKIPPED lines are read"
)]

mod calls;
mod common;
mod faults;
mod installed;
