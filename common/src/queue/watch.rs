//! When the head of the queue looks at the lock: at once when a process that holds a
//! device exits, which the kernel tells by its pidfd and after it has dropped the
//! locks; else four times a second. Where a holder cannot be watched the close event of
//! the lock shortens the wait; ending that watch takes the kernel some 15 ms, so it is
//! not begun without need.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::resource::{Resource, getrlimit};

use crate::lock::LockFile;
use crate::procfs::Stat;
use crate::{poll, sys};

/// Looks after an event: a close comes before the lock is dropped.
const AFTER: [u64; 4] = [0, 1, 5, 20];
/// The longest pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// The shortest on average, beyond a burst.
const APART: Duration = Duration::from_millis(10);
/// Looks that may follow each other more closely.
const BURST: u32 = 50;
/// Processes that are watched at once.
const MOST: usize = 256;
/// Descriptors that are never used for watching.
const SPARE: usize = 24;

/// Tells when to look.
#[derive(Debug)]
pub struct Watch<'a> {
    lock_file: &'a LockFile,
    holders: HashMap<i32, OwnedFd>,
    closes: Option<Inotify>,
    looks: Vec<Instant>,
    /// Looks that are allowed at once, and since when that is so.
    budget: (u32, Instant),
}

impl<'a> Watch<'a> {
    /// Watches nothing yet.
    pub fn new(lock_file: &'a LockFile) -> Self {
        Self {
            lock_file,
            holders: HashMap::new(),
            closes: None,
            looks: Vec::new(),
            budget: (BURST, Instant::now()),
        }
    }

    /// Watches these processes. `all`: nobody else holds what is waited for.
    pub fn follow(&mut self, pids: &[i32], all: bool) {
        self.holders.retain(|pid, _| pids.contains(pid));
        let most = most();
        let mut all = all && pids.len() <= most;
        for pid in pids.iter().take(most) {
            if self.holders.contains_key(pid) {
                continue;
            }
            // Over already: a zombie, or gone, and a child has inherited what it held.
            if !Stat::read(*pid).is_some_and(|stat| stat.alive()) {
                all = false;
                continue;
            }
            match sys::pidfd(*pid) {
                Ok(fd) => drop(self.holders.insert(*pid, fd)),
                // A kernel before 5.3.
                Err(_) => all = false,
            }
        }
        if !all && self.closes.is_none() {
            self.closes = closes(self.lock_file);
        }
    }

    /// Sleeps until the next look, `limit` at most.
    pub fn wait(&mut self, limit: Duration) {
        self.spend();
        let now = Instant::now();
        self.looks.retain(|look| *look > now);
        let planned = self
            .looks
            .iter()
            .min()
            .map_or(PAUSE, |look| look.duration_since(now));
        let pause = planned.min(PAUSE).min(limit);
        let (pids, mut polled): (Vec<i32>, Vec<PollFd<'_>>) = self
            .holders
            .iter()
            .map(|(pid, fd)| (*pid, PollFd::new(fd.as_fd(), PollFlags::POLLIN)))
            .unzip();
        polled.extend(
            self.closes
                .as_ref()
                .map(|closes| PollFd::new(closes.as_fd(), PollFlags::POLLIN)),
        );
        if !poll::until(&mut polled, Some(now + pause)).unwrap_or(false) {
            return;
        }
        let over: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        for (pid, _) in pids.iter().zip(over).filter(|(_, over)| *over) {
            self.holders.remove(pid);
        }
        if let Some(closes) = &self.closes {
            while closes.read_events().is_ok_and(|events| !events.is_empty()) {}
        }
        let now = Instant::now();
        self.looks = AFTER
            .iter()
            .map(|ms| now + Duration::from_millis(*ms))
            .collect();
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

/// How many of the descriptors that this process may have go to watching: what is left is
/// for the lock and for asking NVML.
fn most() -> usize {
    let soft = getrlimit(Resource::RLIMIT_NOFILE)
        .map_or(0, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX));
    MOST.min(soft.saturating_sub(SPARE) / 2)
}

/// The lock's close events (inotify(7)): every opener's, of every user; 128 watchers a
/// user.
fn closes(lock_file: &LockFile) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    let close = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_CLOSE_NOWRITE;
    inotify.add_watch(&lock_file.path, close).ok()?;
    Some(inotify)
}
