//! One call: what it asks for, which devices it may choose from, what it owns already, the choice, and the queue.
//!
//! Start at `Selection`, one look at the node, then `Chooser`, which claims free devices, and `queue`, which waits
//! for them.
//!
//! Invariant: getgpu and cudawrap choose by this crate alone, so that both mean the same devices.
#![deny(missing_docs, clippy::missing_errors_doc)]

pub mod choice;
mod index_order;
mod node_lock;
mod ownership;
pub mod pool;
pub mod queue;
mod request;
mod select;
pub mod syslog;
pub mod take;

pub use choice::cap::{Admission, Guard};
pub use choice::chooser::Chooser;
pub use choice::offer::{Offer, Rejected};
pub use index_order::{IndexOrder, Indexed};
pub use node_lock::{LockWarning, find_lock_file};
pub use ownership::{Basis, Cover, Decision};
pub use pool::{Filter, Outside, Portion};
pub use queue::outlook::Outlook;
pub use queue::queued::{Queued, queued};
pub use queue::{Name, Nameless, Served, take_in_turn, waiting_beside};
pub use request::Request;
pub use request::grant::{Grant, GrantUse};
pub use select::{Observer, Obstacle, Queueing, Selected, Selection};
pub use syslog::Record;
pub use take::{Got, InUse, NamedDevices, NamedOutcome, Part, Taken};
