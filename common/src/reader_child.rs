//! Reading that somebody else can keep from ending, such as another process's command line
//! or a driver's answer: done in a child (fork(2)), whose answer comes by a pipe and which
//! is killed if it takes too long. For programs of one thread.
#![allow(unsafe_code)]

use std::io::{self, PipeReader, Read, Write};
use std::time::{Duration, Instant};

use crate::poll;

/// What `read` gives; `None` if it takes longer than `limit`.
pub fn within(limit: Duration, read: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
    let mut child = ReaderChild::start(read)?;
    child.answer(limit)
}

/// A child that reads.
#[derive(Debug)]
pub struct ReaderChild {
    pid: libc::pid_t,
    pipe: PipeReader,
    bytes: Vec<u8>,
    /// Everything has arrived.
    whole: bool,
}

impl ReaderChild {
    /// Starts it; `None` if that is not possible now.
    pub fn start(read: impl FnOnce() -> Vec<u8>) -> Option<Self> {
        let (pipe, writer) = io::pipe().ok()?;
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
        (pid > 0).then_some(Self {
            pid,
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
            match self.pipe.read(&mut piece).ok()? {
                0 => self.whole = true,
                read => self
                    .bytes
                    .extend_from_slice(piece.get(..read).unwrap_or_default()),
            }
        }
        Some(std::mem::take(&mut self.bytes))
    }
}

impl Drop for ReaderChild {
    fn drop(&mut self) {
        // SAFETY: it is our child, and nobody has waited for it.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            // One in the middle of a read that even SIGKILL does not end is left alone.
            let options = if self.whole { 0 } else { libc::WNOHANG };
            libc::waitpid(self.pid, std::ptr::null_mut(), options);
        }
    }
}
