//! The line of waiters: served in order of arrival, across users and programs, by locks
//! alone, so that who is killed blocks nobody. `number` is a place in the line, `turn`
//! waits for its turn and then for a device, `watch` and `memory` tell when to look,
//! `abandoned` when nobody does, `progress` says so.

pub mod abandoned;
pub mod memory;
pub mod number;
pub mod progress;
pub mod search;
pub mod ticker;
pub mod turn;
pub mod watch;

pub use memory::Rooms;
pub use number::{Number, taken_by, waiting};
pub use progress::Progress;
pub use search::{Search, rooms};
pub use turn::{Seeker, Tried, Turn};
