//! One call: what it asks for, which devices it may have, what it owns already, and taking them.
//!
//! Start at `Asked`, which becomes `Granted` and `Owned`; then `Chooser`, which claims free devices, and `take`, which
//! takes those that are named.
//!
//! Invariant: getgpu and cudawrap choose by this crate alone, so that both mean the same devices.
//! Invariant: knows no queue. What waits is above it.
#![deny(missing_docs, clippy::missing_errors_doc)]

mod causes;
pub mod choice;
mod cuda_index;
mod index_order;
mod node_lock;
pub mod ownership;
pub mod pool;
mod request;
pub mod syslog;
pub mod take;

pub use choice::cap::{Admission, Guard};
pub use choice::chooser::Chooser;
pub use choice::offer::{ChoiceOutcome, Offer, Rejected};
pub use choice::rejection_report::RejectionReport;
pub use cuda_index::cuda_index;
pub use index_order::{IndexOrder, Indexed};
pub use node_lock::find_lock_file;
pub use ownership::{Basis, Cover, Decision};
pub use pool::{Filter, Outside, Portion};
pub use request::grant::{GIVEN_ANOTHER, Grant, GrantUse};
pub use request::{Asked, Granted, Owned};
pub use syslog::Record;
pub use take::{Got, NamedOutcome, NamedTake, Part, Taken, in_use};
