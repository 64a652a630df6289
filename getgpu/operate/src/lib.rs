//! What getgpu does for who runs a node: Slurm's hooks, the monitor, the check of a node, the report of its log, and
//! metrics.
//!
//! Start at the folder of an extra; none knows another one, but for the marks of Slurm's jobs.
//!
//! Invariant: an extra is a folder here and a row in `getgpu/src/run.rs`.

mod causes;
pub mod check;
pub mod monitor;
pub mod prometheus;
pub mod report;
pub mod slurm;
