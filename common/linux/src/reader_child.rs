//! Reading that another process can keep from ending, such as another process's command
//! line or a driver's answer: done in a child (fork(2)), whose answer comes by a pipe and
//! which is killed if it takes too long. For programs of one thread.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::child::kill_and_reap;
use crate::poll;
use crate::procfs::process_memory::{self, Secret};
use crate::procfs::run_time::{Stopwatch, run_delay};
use crate::run_clock;

/// How long one stranger's command line is waited for, all of one user's together, and all
/// users' together: its owner could make the read hang (proc_pid_cmdline(5)).
const STRANGER: Duration = Duration::from_millis(200);
const STRANGERS: Duration = Duration::from_secs(3);
const ALL_USERS: Duration = Duration::from_secs(6);
/// A read that takes longer than this hangs, or the machine is busy: with 50 holders that
/// may take a second. Others count for nothing, however many they are.
const HANGS: Duration = Duration::from_millis(50);

/// Reads command lines of any user's processes, in a time that these do not decide.
#[derive(Debug)]
pub struct CommandLines {
    uid: u32,
    /// How long all users' reads may take together.
    limit: Duration,
    /// A read that takes less than this does not count.
    least: Duration,
    /// How long reads have taken that count, by the user of the process.
    spent: RefCell<BTreeMap<u32, Duration>>,
}

impl CommandLines {
    /// Nothing has been read.
    pub fn start() -> Self {
        Self {
            uid: nix::unistd::geteuid().as_raw(),
            limit: ALL_USERS,
            least: HANGS,
            spent: RefCell::default(),
        }
    }

    /// The same for a caller that can lose no more than this, to reads that do not hang neither.
    pub fn within(limit: Duration) -> Self {
        Self {
            limit,
            least: Duration::ZERO,
            ..Self::start()
        }
    }

    /// How long reads may still take.
    pub fn left(&self) -> Duration {
        self.limit
            .saturating_sub(self.spent.borrow().values().sum())
    }

    /// Whether nothing more is read.
    pub fn is_used_up(&self) -> bool {
        self.left() <= HANGS
    }

    /// Counts what the caller has lost to other users' processes in another way.
    pub fn spend(&self, time: Duration) {
        *self.spent.borrow_mut().entry(self.uid).or_default() += time;
    }

    /// What `pid`, a process of `uid`, was started with, NUL behind each word; nothing where
    /// that cannot be read.
    pub fn command_line(&self, pid: i32, uid: u32) -> Vec<u8> {
        self.read(pid, uid, process_memory::cmdline)
    }

    /// The environment that `pid`, a process of `uid`, was started with, likewise.
    pub fn environment(&self, pid: i32, uid: u32) -> Vec<u8> {
        self.read(pid, uid, environ)
    }

    fn read(&self, pid: i32, uid: u32, what: fn(i32) -> Vec<u8>) -> Vec<u8> {
        if uid == self.uid {
            return what(pid);
        }
        self.ask(uid, || what(pid)).unwrap_or_default()
    }

    /// What `read` finds of a process of another user, `uid`; none where it takes too long, or this
    /// user's reads or all together have.
    fn ask(&self, uid: u32, read: impl Fn() -> Vec<u8>) -> Option<Vec<u8>> {
        self.ask_all(uid, 1, |_| read()).pop().flatten()
    }

    /// What `read` finds of so many processes of another user, by their number; none for each where
    /// that takes too long. One child reads them all, and another goes on behind one that hangs.
    pub fn ask_all(
        &self,
        uid: u32,
        count: usize,
        read: impl Fn(usize) -> Vec<u8>,
    ) -> Vec<Option<Vec<u8>>> {
        let mut answers = Vec::with_capacity(count);
        let mut child = None;
        while answers.len() < count {
            let own = self.spent.borrow().get(&uid).copied().unwrap_or_default();
            let left = STRANGERS.saturating_sub(own).min(self.left());
            // In less than that a read that hangs would not be seen as one.
            if left <= HANGS {
                answers.resize(count, None);
                break;
            }
            let next = answers.len();
            let mut reads = match child.take() {
                Some(child) => child,
                None => match ReaderChild::of_pieces((next..count).map(&read)) {
                    Ok(child) => child,
                    Err(_) => {
                        answers.push(None);
                        continue;
                    }
                },
            };
            let (answer, took) = reads.piece(STRANGER.min(left));
            if took > self.least {
                *self.spent.borrow_mut().entry(uid).or_default() += took;
            }
            child = answer.is_some().then_some(reads);
            answers.push(answer);
        }
        answers
    }
}

fn environ(pid: i32) -> Vec<u8> {
    match process_memory::environ(pid) {
        Secret::Bytes(bytes) => bytes,
        Secret::Denied | Secret::Gone => Vec::new(),
    }
}

/// A child that reads what may hang, so that its parent does not hang: the parent waits with a limit, and kills it.
#[derive(Debug)]
pub struct ReaderChild {
    pid: Pid,
    pipe: PipeReader,
    bytes: Vec<u8>,
    /// Everything has arrived.
    whole: bool,
}

impl ReaderChild {
    /// Starts a child that sends what `read` returns.
    ///
    /// # Errors
    ///
    /// Those of pipe(2) and fork(2).
    pub fn start(read: impl FnOnce() -> Vec<u8>) -> io::Result<Self> {
        Self::writing(|mut pipe| {
            let _ = pipe.write_all(&read());
        })
    }

    /// Starts a child that sends pieces, each behind its length.
    fn of_pieces(pieces: impl Iterator<Item = Vec<u8>>) -> io::Result<Self> {
        Self::writing(|mut pipe| {
            for piece in pieces {
                let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                let sent = pipe.write_all(&length.to_le_bytes());
                if sent.and_then(|()| pipe.write_all(&piece)).is_err() {
                    return;
                }
            }
        })
    }

    fn writing(write: impl FnOnce(&PipeWriter)) -> io::Result<Self> {
        let (pipe, writer) = io::pipe()?;
        let parent = std::process::id();
        // SAFETY: with one thread the child may use all of its memory; it ends by _exit,
        // which runs nothing of the parent's.
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                // A read that hangs must not outlive a starter that was killed.
                crate::sys::die_with(parent);
                drop(pipe);
                write(&writer);
                libc::_exit(0);
            }
            pid
        };
        Ok(Self {
            pid: Pid::from_raw(Errno::result(pid)?),
            pipe,
            bytes: Vec::new(),
            whole: false,
        })
    }

    /// The next piece, if it arrives within `limit`, and how long that took. Time in which the two wait
    /// for a processor does not count.
    fn piece(&mut self, limit: Duration) -> (Option<Vec<u8>>, Duration) {
        let (watch, pid) = (Stopwatch::start(), self.pid.to_string());
        let delay = run_delay(&pid);
        let took = || {
            let waited = run_delay(&pid).saturating_sub(delay);
            watch.elapsed().saturating_sub(waited)
        };
        loop {
            if let Some(piece) = self.next_piece() {
                return (Some(piece), took());
            }
            let left = limit.saturating_sub(took());
            if self.whole || left.is_zero() {
                return (None, took());
            }
            if self.receive(run_clock::now() + left).is_err() {
                return (None, took());
            }
        }
    }

    /// Takes a piece that has arrived.
    fn next_piece(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.bytes.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let piece = rest.get(..length)?.to_vec();
        self.bytes.drain(..4 + length);
        Some(piece)
    }

    /// Reads what has arrived, or arrives until `deadline`; false if nothing does.
    fn receive(&mut self, deadline: Instant) -> io::Result<bool> {
        if !poll::readable(&self.pipe, deadline)? {
            return Ok(false);
        }
        let mut bytes = [0u8; 4096];
        match self.pipe.read(&mut bytes) {
            Ok(0) => self.whole = true,
            Ok(read) => self
                .bytes
                .extend_from_slice(bytes.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// The answer, if all of it arrives within `limit`; it may be asked for again.
    pub fn answer(&mut self, limit: Duration) -> Option<Vec<u8>> {
        let deadline = run_clock::now() + limit;
        while !self.whole {
            if !self.receive(deadline).ok()? {
                return None;
            }
        }
        Some(std::mem::take(&mut self.bytes))
    }
}

impl Drop for ReaderChild {
    fn drop(&mut self) {
        kill_and_reap(self.pid);
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::waitpid;

    use super::*;

    #[test]
    fn one_that_takes_too_long_leaves_no_zombie() {
        let mut child = ReaderChild::start(|| {
            std::thread::sleep(Duration::from_secs(100));
            Vec::new()
        })
        .unwrap();
        let pid = child.pid;
        assert_eq!(child.answer(Duration::from_millis(1)), None);
        drop(child);
        assert_eq!(waitpid(pid, None), Err(Errno::ECHILD));
    }

    #[test]
    fn only_reads_that_hang_count_and_only_for_their_user() {
        let lines = CommandLines::start();
        let hangs = || {
            std::thread::sleep(Duration::from_secs(100));
            Vec::new()
        };
        let mut tries = 0;
        while lines
            .spent
            .borrow()
            .get(&1)
            .is_none_or(|hung| *hung + HANGS < STRANGERS)
        {
            assert_eq!(lines.ask(1, hangs), None);
            tries += 1;
        }
        assert!(tries <= 16, "{tries}");
        assert_eq!(lines.ask(1, || b"late".to_vec()), None);
        assert_eq!(lines.ask(2, || b"other".to_vec()), Some(b"other".to_vec()));
    }

    #[test]
    fn a_caller_with_a_limit_loses_no_more_than_that() {
        let lines = CommandLines::within(Duration::from_secs(60));
        assert_eq!(lines.ask(1, || b"x".to_vec()), Some(b"x".to_vec()));
        let left = lines.left();
        assert!(left < Duration::from_secs(60), "each read counts");
        lines.spend(left);
        assert_eq!(lines.ask(2, || b"y".to_vec()), None);
    }

    #[test]
    fn an_answer_is_whole_and_its_child_gone() {
        let bytes = vec![b'x'; 1 << 20];
        let mut child = ReaderChild::start(|| bytes.clone()).unwrap();
        assert_eq!(child.answer(Duration::from_secs(100)), Some(bytes));
    }

    #[test]
    fn one_that_hangs_keeps_no_other_from_being_read() {
        let lines = CommandLines::start();
        let read = |number: usize| {
            if number == 1 {
                std::thread::sleep(Duration::from_secs(100));
            }
            vec![b'x'; number * 70_000]
        };
        let answers = lines.ask_all(1, 4, read);
        let lengths: Vec<Option<usize>> = answers
            .iter()
            .map(|answer| answer.as_ref().map(Vec::len))
            .collect();
        assert_eq!(lengths, [Some(0), None, Some(140_000), Some(210_000)]);
    }
}
