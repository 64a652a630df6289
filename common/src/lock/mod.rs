//! The lock file of the host: where it is and whether it may be trusted (`lock_file`,
//! `trust`), how devices are laid out on it (`layout`), locking byte ranges of it
//! (`ofd_lock`), parts of a device (`units`, `occupancy`), for whom and among
//! whom it is claimed (`side`), claims on devices (`protocol`,
//! `claim`), who holds and claims what (`holders`, `claimers`), what one user's calls
//! take turns at (`user_locks`), and what is our own (`ownership_proof`).

pub mod claim;
pub mod claimers;
pub mod create;
pub mod holder_args;
pub mod holders;
pub mod host_sharing;
pub mod layout;
pub mod lock_file;
pub mod occupancy;
pub mod ofd_lock;
pub mod ownership_proof;
pub mod protocol;
pub mod side;
pub mod user_locks;

pub use crate::byte_range::Range;
pub use crate::trust::LockOrigin;
pub use crate::units::{UNITS, Units};
pub use claim::{Attempt, Claim, ClaimSpec};
pub use layout::Span;
pub use lock_file::{HOST_LOCK, LockFile};
pub use occupancy::Occupancy;
pub use ofd_lock::{Conflict, Held, LockResult, OfdLock};
pub use side::{Level, Side};
