//! Waiting for processes to be over: by pidfd, or, before Linux 5.3, by looking once a
//! second. At most 16 at a time; when all of them have exited a new look finds any others.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use getgpu_common::procfs::Stat;
use getgpu_common::{poll, sys};
use nix::poll::{PollFd, PollFlags};

/// Processes that are waited for at once.
const MOST: usize = 16;

struct Watched {
    pid: i32,
    start: u64,
    fd: Option<OwnedFd>,
}

impl Watched {
    /// None if the process has exited already.
    fn new(pid: i32, start: u64) -> Option<Self> {
        let fd = sys::pidfd(pid).ok();
        // Looked at after the pidfd was opened: the number cannot have gone to another
        // process unseen.
        runs(pid, start).then_some(Self { pid, start, fd })
    }
}

/// Whether the process that began at `start` still runs.
pub fn runs(pid: i32, start: u64) -> bool {
    Stat::read(pid).is_some_and(|stat| stat.start == start && stat.alive())
}

/// A set of processes to wait for.
pub struct Watch(Vec<Watched>);

impl Watch {
    /// Watches these.
    pub fn new(processes: impl Iterator<Item = (i32, u64)>) -> Self {
        Self(
            processes
                .take(MOST)
                .filter_map(|(pid, start)| Watched::new(pid, start))
                .collect(),
        )
    }

    /// Waits until all have exited, `limit` at most; whether they have.
    pub fn all_over(&mut self, limit: Option<Duration>) -> bool {
        let deadline = limit.map(|limit| Instant::now() + limit);
        while !self.0.is_empty() {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return false;
            }
            self.wait(deadline);
        }
        true
    }

    /// Without a pidfd for each it looks again after a second.
    fn wait(&mut self, deadline: Option<Instant>) {
        let blind = self.0.iter().any(|watched| watched.fd.is_none());
        let slice = blind.then(|| Instant::now() + Duration::from_secs(1));
        let until = deadline.into_iter().chain(slice).min();
        let mut fds: Vec<PollFd<'_>> = self
            .0
            .iter()
            .filter_map(|w| w.fd.as_ref())
            .map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN))
            .collect();
        let _ = poll::until(&mut fds, until);
        let ended: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ended = ended.into_iter();
        self.0.retain(|watched| match watched.fd {
            Some(_) => !ended.next().unwrap_or(false),
            None => runs(watched.pid, watched.start),
        });
    }
}
