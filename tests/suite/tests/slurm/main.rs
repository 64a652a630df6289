//! A real Slurm in a sandbox, and the hooks of `etc/slurm`.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

mod epilog_cut_short;
mod grants;
mod hook_calls;
mod job_options;
mod job_shares;
mod memory_limits;
mod own_part;
mod preemption;
mod prolog_epilog;
mod prolog_failures;
mod strangers;
mod task_calls;
mod task_epilog;
mod task_prolog;
mod task_prolog_call;
mod task_prolog_failures;
mod tasks;
mod typed_settings;
mod wrapped;
