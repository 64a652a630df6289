//! CPUs: sets of them as the kernel writes them, and the mask of a process (cpuset(7),
//! sched_setaffinity(2)). `set` is pure, `mask` makes the two system calls; any number of
//! CPUs, the C library's 1,024 are no limit here.

pub mod mask;
mod set;

pub use set::{CpuSet, overlap};
