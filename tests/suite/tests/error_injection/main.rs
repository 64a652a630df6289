//! SIGKILL and errors at each system call of the programs, by a ptrace tracer of our own.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod every_system_call;
