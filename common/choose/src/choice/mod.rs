//! Choosing devices: in which order they are tried (`policy`, `sampling`), how each is
//! claimed (`device_claim`), how much one user may have (`cap`), the choice itself (`chooser`)
//! and how far it has come (`round`), and why there was nothing to have
//! (`rejection_report`).

pub mod cap;
pub mod chooser;
pub mod device_claim;
pub mod policy;
pub mod rejection_report;
mod round;
pub mod sampling;
