//! The queue of waiters: served in order of arrival, across users and programs, by locks alone, so that a killed
//! waiter blocks no other.
//!
//! Start at `Selection`, one look at the node that ends with devices or with a place in the queue, then `Waiter`,
//! which looks until it is served.
//!
//! Invariant: what is taken is taken by `getgpu_choose`, which knows no queue.
#![deny(missing_docs, clippy::missing_errors_doc)]

mod causes;
mod keeping;
mod listed;
mod name;
mod named_search;
mod outage;
mod outlook;
mod patience;
#[cfg(test)]
mod private_lock;
mod progress;
mod queued;
mod retry_schedule;
mod room;
mod search;
mod seeker;
mod select;
mod shared_turn;
mod soon;
mod stalled_head;
mod ticket;
mod tolerance;
mod waiter;
mod wanted;

pub use name::{Name, Nameless, Served};
pub use named_search::take_in_turn;
pub use outage::Outage;
pub use queued::{Queued, queued};
pub use select::{At, Observer, Obstacle, Queueing, Selected, Selection};
pub use wanted::waiting_beside;

use patience::Patience;
use progress::Progress;
use retry_schedule::Availability;
use room::availability;
use search::Search;
pub use ticket::waiting;

use seeker::{Seeker, Tried};
use ticket::{Ticket, head, taken_by};
use waiter::Waiter;
