//! Choosing devices: in which order they are tried (`policy`, `draw`), how each is
//! claimed (`attempt`), how much one user may have (`cap`), the choice itself (`pick`),
//! and why there was nothing to have (`census`).

pub mod attempt;
pub mod cap;
pub mod census;
mod chance;
pub mod draw;
pub mod pick;
pub mod policy;
