//! What getgpu does for a user: it prints a device and keeps it reserved, gives it back, and shows the node.
//!
//! Start at `carry_out`, then `obtain`, the story of a call that prints a device, and `holder`, which keeps it.
//!
//! Invariant: knows nothing of who runs a node. The crate for them depends on this one, and not the other way round.

pub mod call;
mod carry_out;
mod causes;
pub mod ended_reservation;
pub mod holder;
pub mod list;
pub mod obtain;
pub mod options;
pub mod release;
pub mod show_config;
pub mod wanted;

pub use carry_out::{carry_out, put_options};
