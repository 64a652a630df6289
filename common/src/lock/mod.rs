//! The lock file of the host: where it is and whether it may be trusted (`place`,
//! `trust`), how devices are laid out on it (`layout`), locking byte ranges of it
//! (`range`), parts of a device (`units`, `taken`), claims on devices (`protocol`,
//! `claim`), who holds and claims what (`holders`, `claimers`), what one user's calls
//! take turns at (`turns`), and what is our own (`own`).

pub mod claim;
pub mod claimers;
pub mod holders;
pub mod layout;
pub mod make;
pub mod origin;
pub mod own;
pub mod place;
pub mod protocol;
pub mod range;
pub mod shared;
pub mod taken;
pub mod trust;
pub mod turns;
pub mod units;

pub use crate::bytes::Range;
pub use claim::{Aim, Attempt, Claim, Level, Side};
pub use layout::{Span, UNITS};
pub use origin::Origin;
pub use place::Place;
pub use range::{Conflict, Description, Held};
pub use taken::Taken;
pub use units::Units;
