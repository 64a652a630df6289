//! Reading that another process can keep from ending, such as another process's command
//! line or a driver's answer: done in a child (fork(2)), whose answer comes by a pipe and
//! which is killed if it takes too long. For programs of one thread.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, PipeReader, Read, Write};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::child::kill_and_reap;
use crate::poll;
use crate::procfs::process_memory::{self, Secret};

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
    /// How long reads have hung, by the user of the process.
    hung: RefCell<BTreeMap<u32, Duration>>,
}

impl CommandLines {
    /// Nothing has been read.
    pub fn start() -> Self {
        Self {
            uid: nix::unistd::geteuid().as_raw(),
            hung: RefCell::default(),
        }
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
        self.stranger(uid, || what(pid))
    }

    /// Reads of a process of `uid`, as long as neither this user's reads nor all together
    /// have hung too long.
    fn stranger(&self, uid: u32, read: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let mut hung = self.hung.borrow_mut();
        let all = ALL_USERS.saturating_sub(hung.values().sum());
        let own = hung.entry(uid).or_default();
        let left = STRANGERS.saturating_sub(*own).min(all);
        // In less than that a read that hangs would not be seen as one.
        if left <= HANGS {
            return Vec::new();
        }
        let began = Instant::now();
        let answer = within(STRANGER.min(left), read);
        if began.elapsed() > HANGS {
            *own += began.elapsed();
        }
        answer.unwrap_or_default()
    }
}

fn environ(pid: i32) -> Vec<u8> {
    match process_memory::environ(pid) {
        Secret::Bytes(bytes) => bytes,
        Secret::Denied | Secret::Gone => Vec::new(),
    }
}

/// What `read` gives; `None` if it takes longer than `limit`.
pub fn within(limit: Duration, read: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
    let mut child = ReaderChild::start(read).ok()?;
    child.answer(limit)
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
                let _ = (&writer).write_all(&read());
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

    /// The answer, if all of it arrives within `limit`; it may be asked for again.
    pub fn answer(&mut self, limit: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + limit;
        let mut piece = [0u8; 4096];
        while !self.whole {
            if poll::readable(&self.pipe, deadline) != Ok(true) {
                return None;
            }
            match self.pipe.read(&mut piece) {
                Ok(0) => self.whole = true,
                Ok(read) => self
                    .bytes
                    .extend_from_slice(piece.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
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
            .hung
            .borrow()
            .get(&1)
            .is_none_or(|hung| *hung + HANGS < STRANGERS)
        {
            assert_eq!(lines.stranger(1, hangs), b"");
            tries += 1;
        }
        assert!(tries <= 16, "{tries}");
        assert_eq!(lines.stranger(1, || b"late".to_vec()), b"");
        assert_eq!(lines.stranger(2, || b"other".to_vec()), b"other");
    }

    #[test]
    fn an_answer_is_whole_and_its_child_gone() {
        let bytes = vec![b'x'; 1 << 20];
        let answer = within(Duration::from_secs(100), || bytes.clone());
        assert_eq!(answer, Some(bytes));
    }
}
