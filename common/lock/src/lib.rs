//! The lock file of the host: where devices lie on it, what its ranges mean, taking them, and who holds them.
//!
//! Start at `LockFile`, which finds and opens it, then `Claim`, which takes a device in two steps; `protocol` has
//! the decisions, which a test explores in every interleaving.
//!
//! Invariant: knows no settings. They are not among the dependencies.
//! Invariant: the layout never changes. `layout::tests::the_layout_never_changes` has its numbers.
#![deny(missing_docs, clippy::missing_errors_doc)]

mod causes;
pub mod claim;
pub mod claimers;
mod create;
pub mod holder_args;
pub mod holders;
pub mod host_sharing;
mod keeper;
pub mod kept;
pub mod layout;
mod lock_file;
mod locks_shown;
pub mod occupancy;
mod ofd_lock;
pub mod ownership_proof;
mod protocol;
mod side;
pub mod user_locks;

pub use claim::{Claim, ClaimSpec};
pub use holder_args::{HolderArgs, KEEPER, LEASE_WORD, OPTION, Role, Tag, Until, keeper_text};
pub use holders::{Holder, Holdings};
pub use layout::Span;
pub use lock_file::{HOST_LOCK, LockFile};
pub use occupancy::{Occupancy, Seen};
pub use ofd_lock::{Conflict, Held, LockResult, OfdLock};
pub use ownership_proof::{HOLDER_NAME, HolderProcess};
pub use side::{Level, Side};
