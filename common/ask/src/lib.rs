//! The client of the process that asks NVML, and what the two say to each other.
//!
//! Start at `Node`, the node as one call has read it, and at `nvml_client`, the session below it.
//!
//! Invariant: never loads NVIDIA's library. `getgpu-nvml`, which does, is not among the dependencies.
#![deny(missing_docs, clippy::missing_errors_doc)]

mod causes;
pub mod gpu_bus;
pub mod mig_tree;
mod node;
pub mod nvml_client;

pub use causes::{HANGS, HANGS_OR_SICK};
pub use node::Node;
pub use nvml_client::rules::{MEMORY_DECIDES, Rules};
pub use nvml_client::wire::{NvmlQuestion, NvmlRequest};
pub use nvml_client::{Allowing, Look, NVML_WORKER_OPTION, Worker};
