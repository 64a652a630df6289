//! NVIDIA libraries and drivers that fail, hang or mislead: an answer in time, the right
//! status, nothing held.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is a failed test; figures and SKIPPED lines are read"
)]

mod busy_or_idle;
mod device_nodes;
mod driver_matrix;
mod drivers;
mod each_error;
mod failing_library;
mod hostile_library;
mod numa_node;
mod nvml_hangs;
mod sick_gpus;
mod silent_gpus;
mod stopped;
