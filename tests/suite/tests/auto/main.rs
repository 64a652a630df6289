//! Programs that nobody wrapped get their device from libcudawrap.so, which the driver loads
//! at their first CUDA call.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod first_call;
mod guest;
mod helper_process;
mod no_device;
mod option_and_check;
mod programs;
mod wrapped_programs;
