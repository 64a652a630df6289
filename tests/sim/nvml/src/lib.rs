//! A simulated NVIDIA management library (libnvidia-ml.so.1) for machines without a GPU.
//! It answers for the node in the folder that `SIM_NODE` names; see
//! `tests/sim/README.md`.

pub mod abi;
mod absent;
mod affinity;
mod answers;
mod codes;
mod copy;
mod exports;
pub mod functions;
mod gpm;
mod handle;
mod health;
pub mod install;
mod library;
mod links;
mod list_exports;
mod memory_limits;
mod noise;
mod processes;
mod session;
mod trouble;
mod unsupported;
