//! Choosing devices: in which order they are tried (`policy`, `sampling`), how each is
//! claimed (`device_claim`), what can be had of it (`offer`), how much one user may have
//! (`cap`), what policies go by (`loads`, and `connected` for several GPUs), who shares a device
//! (`sharers`), what is liked best before what will do (`wishes`), the choice itself (`chooser`) and
//! how far it has come (`round`), and who holds what where none is free (`rejection_report`).

pub mod cap;
pub mod chooser;
mod connected;
pub mod device_claim;
mod loads;
pub mod offer;
pub mod policy;
pub mod rejection_report;
mod round;
pub mod sampling;
mod sharers;
mod wishes;
