//! Tests of the tests: the simulated node against programs that know nothing of it, and
//! the sandbox's own judgements.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod foreign_programs;
mod program_contexts;
mod real_libraries;
