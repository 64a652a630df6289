//! Asking NVML: runs only in the short process that `ask` starts, never in one that
//! becomes the user's program. `library` loads it, `raw` holds the calls that
//! nvml-wrapper lacks, `session` walks GPUs and MIG devices, `usage` judges, `affinity`
//! tells the CPUs, `health` whether a GPU is well, `gauges` how warm and busy a GPU is, `serve` answers requests.
#![deny(clippy::missing_errors_doc)]

mod affinity;
mod answers;
mod causes;
mod device_files;
pub mod fault;
mod gauges;
mod health;
mod judge;
mod library;
mod links;
mod memory;
mod processes;
mod raw;
pub mod serve;
mod session;
pub mod spawn;
mod usage;
