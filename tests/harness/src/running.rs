//! A program that was started: its pid, signals to it, its end within the time limit.
//! Dropped, it is killed, with what is still in its process group.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::{Outcome, wait};

/// A program that was started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: File,
    err: File,
    started: Instant,
    limit: Duration,
    words: Vec<OsString>,
}

impl Running {
    pub(crate) const fn new(
        child: Child,
        out: File,
        err: File,
        started: Instant,
        limit: Duration,
        words: Vec<OsString>,
    ) -> Self {
        Self {
            child,
            out,
            err,
            started,
            limit,
            words,
        }
    }

    /// Its process id, and that of its group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let _ = kill(self.raw(), signal);
    }

    /// Ends it.
    #[track_caller]
    pub fn kill(self) -> Outcome {
        self.signal(Signal::SIGKILL);
        self.wait()
    }

    /// Whether it has exited.
    pub fn is_over(&mut self) -> bool {
        self.status().is_some()
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("ask for the status")
    }

    fn raw(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }

    /// Waits for its end; fails when the time limit has passed.
    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        let left = self.limit.saturating_sub(self.started.elapsed());
        let ended = wait::holds_within(left, || self.is_over());
        let elapsed = self.started.elapsed();
        let status = self.status();
        let (stdout, stderr) = (self.stdout(), self.stderr());
        let words = std::mem::take(&mut self.words);
        let Some(status) = status.filter(|_| ended) else {
            let limit = self.limit;
            drop(self);
            panic!("{words:?} was not over after {limit:?}\nstdout: {stdout}\nstderr: {stderr}");
        };
        Outcome {
            status,
            stdout,
            stderr,
            elapsed,
            words,
        }
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        written(&self.out)
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        written(&self.err)
    }
}

/// Read at places of its own choice, since the file's offset is also the writer's.
pub fn written(file: &File) -> String {
    let size = file.metadata().expect("size of the output").len();
    let mut bytes = vec![0; size as usize];
    let read = file.read_at(&mut bytes, 0).expect("read the output");
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

impl Drop for Running {
    fn drop(&mut self) {
        let over = matches!(self.child.try_wait(), Ok(Some(_)));
        if !over {
            let _ = killpg(self.raw(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}
