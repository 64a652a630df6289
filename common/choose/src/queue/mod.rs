//! The queue of waiters: served in order of arrival, across users and programs, by locks
//! alone, so that a killed waiter blocks no other. `ticket` is a place in the queue,
//! `waiter` waits for its turn and then for a device, `retry_schedule` tells when to try
//! one again, `patience` how long it waits, `tolerance` how often NVML may fail meanwhile,
//! `stalled_head` when the head tries none, `keeping` is the turn of those who want several
//! devices, `progress` says so, `named_search` waits for devices that are named, `queued` lists who waits,
//! `wanted` how many wait beside a program, `lingering` finds reservations that are about to end,
//! `prospect` tells how long a call waits for these, `outlook` tells when devices may become free.

pub mod keeping;
pub mod lingering;
mod listed;
mod name;
mod named_search;
pub mod outlook;
mod patience;
#[cfg(test)]
mod private_lock;
pub mod progress;
pub mod prospect;
pub mod queued;
pub mod retry_schedule;
pub mod search;
pub mod stalled_head;
pub mod ticket;
mod tolerance;
pub mod waiter;
mod wanted;

pub use name::{Name, Nameless, Served};
pub use named_search::take_in_turn;
pub use patience::Patience;
pub use progress::Progress;
pub use retry_schedule::Availability;
pub use search::{Search, availability, past_stopped_keeper};
pub use ticket::{Ticket, head, taken_by, waiting};
pub use waiter::{NotServed, Seeker, Tried, Waiter};
pub use wanted::waiting_beside;
