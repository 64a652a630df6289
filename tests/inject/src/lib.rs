//! Crashes and errors at one chosen system call of one chosen process of a program: every
//! process that it starts is followed by ptrace(2), so a point is named by "the third
//! process, its 41st call" and two runs differ in nothing else. Where runs differ by
//! themselves, by what other processes do, it is named by what the call is, and the how
//! manieth of its kind.
//!
//! ```no_run
//! let plain = inject::follow(&mut std::process::Command::new("true"), None, |_| false, |_| ());
//! let first = plain.calls[0].point;
//! let blow = (inject::At::Point(first), inject::Blow::Fail(nix::errno::Errno::EIO));
//! let story = inject::follow(&mut std::process::Command::new("true"), Some(blow), |_| false, |_| ());
//! assert!(story.struck.is_some());
//! ```

mod follow;
mod processor;
mod subject;
mod watchdog;

use std::time::Instant;

use nix::errno::Errno;

pub use follow::{can_follow, follow, watch};
pub use processor::calls;
pub use subject::lock_range;

/// A system call, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Which process, in the order in which they came to be: 0 is the program that was
    /// started.
    pub process: usize,
    /// Which of its calls, from 0, those before an execve(2) of its own counted too.
    pub call: usize,
}

/// A system call, by what it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alike {
    /// As in [`Point`].
    pub process: usize,
    pub number: i64,
    /// What is the same in every run of its subject: the command of fcntl(2), and the last
    /// part of the path.
    pub kind: String,
    /// Which of these calls, from 0.
    pub nth: usize,
}

/// Where a blow is struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    Point(Point),
    Alike(Alike),
}

impl At {
    fn is(&self, call: &Call) -> bool {
        match self {
            Self::Point(point) => *point == call.point,
            Self::Alike(alike) => *alike == call.alike,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL to that process, just before the call is made.
    Kill,
    /// The call is not made and fails.
    Fail(Errno),
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where.
    pub point: Point,
    pub alike: Alike,
    pub number: i64,
    /// The process that makes it, and what it calls with.
    pub pid: i32,
    pub arguments: [u64; 6],
    /// What the call is about, as `subject.rs` reads it: a path, or a word like `F_OFD_SETLK`
    /// before one; empty where it is about neither.
    pub subject: String,
}

#[derive(Debug)]
pub struct Story {
    /// All calls of all processes, in order.
    pub calls: Vec<Call>,
    /// The call that it struck.
    pub struck: Option<Call>,
    /// How process 0 ended: an exit status, or minus the signal.
    pub status: i32,
    /// When process 0 ended.
    pub ended: Instant,
    /// Whether it had to be killed because nothing came to an end.
    pub hung: bool,
}
