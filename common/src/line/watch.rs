//! When the head of the line looks at the lock: after a close of it (inotify(7)), which comes before the lock is dropped, a few times;
//! else four times a second, since the event may be unavailable and is not sent for everything. Never more than a hundred times a second.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::lock::Place;

/// Looks after an event.
const AFTER: [u64; 4] = [0, 1, 5, 20];
/// The longest pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// The shortest on average, beyond a burst.
const APART: Duration = Duration::from_millis(10);
/// Looks that may follow each other more closely.
const BURST: u32 = 50;

/// Tells when to look.
#[derive(Debug)]
pub struct Watch {
    inotify: Option<Inotify>,
    looks: Vec<Instant>,
    /// Looks that are allowed at once, and since when that is so.
    budget: (u32, Instant),
}

impl Watch {
    /// Watches the lock; where that cannot be had (128 watchers a user), by the clock alone.
    pub fn new(place: &Place) -> Self {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Inotify::init(flags).ok().filter(|inotify| {
            let close = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_CLOSE_NOWRITE;
            inotify.add_watch(&place.path, close).is_ok()
        });
        Self { inotify, looks: Vec::new(), budget: (BURST, Instant::now()) }
    }

    /// Something of ours has just closed the lock: its events say nothing, but may hide others.
    pub fn closed_ourselves(&mut self) {
        self.drain();
        self.soon(&AFTER[1..]);
    }

    /// Sleeps until the next look, `limit` at most.
    pub fn wait(&mut self, limit: Duration) {
        self.spend();
        let now = Instant::now();
        self.looks.retain(|look| *look > now);
        let planned = self.looks.iter().min().map_or(PAUSE, |look| look.duration_since(now));
        let pause = planned.min(PAUSE).min(limit);
        let timeout = PollTimeout::try_from(pause + Duration::from_micros(999)).unwrap_or(PollTimeout::ZERO);
        let woken = match &self.inotify {
            Some(inotify) => poll(&mut [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|n| n > 0),
            None => {
                std::thread::sleep(pause);
                false
            }
        };
        if woken {
            self.drain();
            self.soon(&AFTER);
        }
    }

    fn drain(&self) {
        if let Some(inotify) = &self.inotify {
            while inotify.read_events().is_ok_and(|events| !events.is_empty()) {}
        }
    }

    fn soon(&mut self, after: &[u64]) {
        let now = Instant::now();
        // One set of looks is enough: a later event's looks come later than an earlier one's.
        self.looks = after.iter().map(|ms| now + Duration::from_millis(*ms)).collect();
    }

    /// Takes one look from the budget; waits if there is none.
    fn spend(&mut self) {
        let (left, since) = &mut self.budget;
        let earned = since.elapsed().as_millis() / APART.as_millis();
        if earned > 0 {
            *left = BURST.min(left.saturating_add(u32::try_from(earned).unwrap_or(BURST)));
            *since = Instant::now();
        }
        match left.checked_sub(1) {
            Some(rest) => *left = rest,
            None => std::thread::sleep(APART),
        }
    }
}
