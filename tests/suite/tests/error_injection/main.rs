//! SIGKILL and errors at each system call of the programs, and what others do between two of
//! them, by a ptrace tracer of our own.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod between_calls;
mod every_system_call;
mod rivals;
mod rules;
mod stops;

/// Whether there is no ptrace(2); then it has been said.
fn lacks_tracer() -> bool {
    let follows = inject::can_follow();
    if !follows {
        harness::skip::say("system calls cannot be followed here");
    }
    !follows
}

/// Whether a process has become the user's program, by how its file may be called.
fn is_one_of(pid: i32, names: &[&str]) -> bool {
    let executable = std::fs::read_link(format!("/proc/{pid}/exe"));
    executable.is_ok_and(|exe| names.iter().any(|name| exe.ends_with(name)))
}
