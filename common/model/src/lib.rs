//! Words and values: UUIDs, devices, the inventory of a node, shares, sets of CPUs, failures and their statuses.
//!
//! Start at `Inventory`, the node as plain data, and at `Failure`, the one type of all failures.
//!
//! Invariant: knows no lock, no setting and no NVML. Of this project `getgpu-linux` alone is among the dependencies.
#![deny(missing_docs, clippy::missing_errors_doc)]

pub mod batch;
mod causes;
pub mod cpus;
pub mod diag;
mod error;
pub mod exit;
pub mod frameworks;
mod gpu_listing;
mod gpu_model;
mod health;
mod ident;
mod inventory;
pub mod lease_tag;
mod links;
pub mod mig_profile;
mod nearest;
pub mod quantity;
pub mod share;
mod similar;
mod units;
pub mod visible;

pub use batch::{BatchGpus, Job};
pub use causes::NodeCause;
pub use cpus::{CpuSet, overlap};
pub use diag::{Diag, Verbosity};
pub use error::{Failure, Kind, reason};
pub use gpu_listing::GpuListing;
pub use gpu_model::is_model;
pub use health::{Ailment, ComputeMode, Health, of_compute_mode, of_fabric, of_recovery_action};
pub use ident::{Selector, Uuid, WITHOUT_PREFIX, WITHOUT_PREFIX_HINT};
pub use inventory::{
    Activity, Detail, Device, Gauge, Gpu, GpuProcess, Inventory, Memory, Silent, Usage,
};
pub use links::{GpuLinks, LinkMap, PairLinks};
pub use mig_profile::MigProfile;
pub use nearest::{Distance, Nearest};
pub use share::Share;
pub use similar::{similar, word_of};
pub use units::{UNITS, Units};
pub use visible::Visible;
