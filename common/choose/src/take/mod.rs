//! Taking devices that are named: nothing is chosen, and NVML is not asked. What is free for all is
//! taken by `choice`; both give a `Taken`, which is confirmed in one way.
//!
//! Start at `kind`, the table of the ways in which a call takes a device.

pub(crate) mod gate;
mod in_use;
pub(crate) mod kind;
mod named;
pub(crate) mod taken;

pub use in_use::in_use;
pub use named::{NamedOutcome, NamedTake};
pub use taken::{Got, Part, Taken};
