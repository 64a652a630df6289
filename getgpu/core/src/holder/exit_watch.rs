//! Waiting for processes to exit: by pidfd, or, before Linux 5.3, by looking once a
//! second. At most 16 at a time; when all of them have exited a new look finds any others.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use getgpu_linux::{Stat, pidfd, poll};
use nix::poll::{PollFd, PollFlags};

/// Processes that are waited for at once.
const MOST: usize = 16;

struct AwaitedProcess {
    pid: i32,
    /// Start after boot, in clock ticks.
    start: u64,
    fd: Option<OwnedFd>,
}

impl AwaitedProcess {
    /// None if the process has exited already.
    fn new(pid: i32, start: u64) -> Option<Self> {
        let fd = pidfd::open(pid);
        // Looked at after the pidfd was opened: the number cannot have gone to another
        // process unseen.
        Stat::runs(pid, start).then_some(Self { pid, start, fd })
    }
}

/// A set of processes to wait for.
pub struct ExitWatch(Vec<AwaitedProcess>);

impl ExitWatch {
    /// Of these, those that still run, 16 at most.
    pub fn new(processes: impl Iterator<Item = (i32, u64)>) -> Self {
        Self(
            processes
                .filter_map(|(pid, start)| AwaitedProcess::new(pid, start))
                .take(MOST)
                .collect(),
        )
    }

    /// Waits until all have exited, `limit` at most; whether they have.
    pub fn have_exited(&mut self, limit: Option<Duration>) -> bool {
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
        let blind = self.0.iter().any(|process| process.fd.is_none());
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
        self.0.retain(|process| match process.fd {
            Some(_) => !ended.next().unwrap_or(false),
            None => Stat::runs(process.pid, process.start),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn processes_that_have_exited_take_no_place() {
        let start = |words: &str| Command::new("sleep").arg(words).spawn().unwrap();
        let mut children: Vec<Child> = (0..MOST).map(|_| start("0")).collect();
        children.push(start("60"));
        let seen = |child: &Child| Stat::read(child.id() as i32).unwrap();
        let (last, exited) = children.split_last().unwrap();
        while exited.iter().any(|child| seen(child).alive()) {
            std::thread::yield_now();
        }
        let all = exited.iter().chain([last]).map(seen);
        let mut running = ExitWatch::new(all.map(|stat| (stat.pid, stat.start)));
        assert!(!running.have_exited(Some(Duration::ZERO)), "one still runs");
        children[MOST].kill().unwrap();
        assert!(running.have_exited(None));
        for mut child in children {
            child.wait().unwrap();
        }
    }

    /// Without a pidfd nothing wakes the holder: it has to look by itself.
    #[test]
    fn the_exit_of_a_process_without_a_pidfd_is_seen() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let stat = Stat::read(child.id() as i32).unwrap();
        let mut running = ExitWatch(vec![AwaitedProcess {
            pid: stat.pid,
            start: stat.start,
            fd: None,
        }]);
        assert!(!running.have_exited(Some(Duration::ZERO)), "it still runs");
        let waiting = std::thread::spawn(move || running.have_exited(None));
        child.kill().unwrap();
        let began = Instant::now();
        while !waiting.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(30), "it waits on");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(waiting.join().unwrap());
        child.wait().unwrap();
    }
}
