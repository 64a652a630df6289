//! The connection to one process that asks NVML: a question is a line, and so is its answer,
//! within a time limit. What ends it is told apart, since a process that hangs or dies at one
//! GPU is replaced.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, SockType, send, shutdown};
use serde::de::DeserializeOwned;

use super::wire::NvmlRequest;
use getgpu_linux::{descriptors::socket_pair, poll, run_clock};
use getgpu_model::{Failure, reason};

/// More bytes than this in one answer are a library gone wrong.
const LONGEST_ANSWER: usize = 64 << 20;

/// How long a worker that was told to end may take before its process is looked at.
const HANG_UP: Duration = Duration::from_millis(50);

/// The other process, whichever way it was started.
pub struct Worker {
    /// The connection to it.
    pub channel: OwnedFd,
    /// Waits until it exits, until `deadline` at most; false if it does not (then it was
    /// killed).
    pub end: Box<dyn FnOnce(Instant) -> bool>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The limit has passed.
    Late,
    /// The process is gone, or talks nonsense: why.
    Broken(String),
    /// The library cannot be opened.
    Closed(Failure),
}

/// A running worker, and what it has sent.
pub(crate) struct Connection {
    worker: Worker,
    buffer: Vec<u8>,
    /// What is read at a time: made once, since zeroing it takes longer than most answers.
    part: Vec<u8>,
    /// Whether the library is known to be open.
    opened: bool,
}

impl Connection {
    /// Begins with the request that opens the library. It is not waited for: what the library
    /// says is read with the answer to the first question.
    pub(crate) fn open(worker: Worker, request: &NvmlRequest) -> Self {
        let connection = Self {
            worker,
            buffer: Vec::new(),
            part: vec![0; 16 << 10],
            opened: false,
        };
        // If it cannot be sent, neither can the first question.
        let _ = connection.send(request);
        connection
    }

    /// Waits until the library is open, until `deadline` at most.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or nothing comes.
    pub(crate) fn wait_until_open(&mut self, deadline: Instant) -> Result<(), NoAnswer> {
        if !self.opened {
            // A process that cannot open the library says so and is gone.
            self.receive::<()>(deadline)?.map_err(NoAnswer::Closed)?;
            self.opened = true;
        }
        Ok(())
    }

    /// Sends a request, without waiting for its answer.
    ///
    /// # Errors
    ///
    /// The process is gone.
    pub(crate) fn send(&self, request: &NvmlRequest) -> Result<(), NoAnswer> {
        let mut line =
            serde_json::to_vec(request).map_err(|error| NoAnswer::Broken(error.to_string()))?;
        line.push(b'\n');
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            // Not write(2): a worker that crashed must not end us by SIGPIPE.
            let channel = self.worker.channel.as_raw_fd();
            match send(channel, rest, MsgFlags::MSG_NOSIGNAL) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(broken(errno)),
            }
        }
        Ok(())
    }

    /// The next answer: what was asked for, or the failure that is the answer.
    ///
    /// # Errors
    ///
    /// There is none until `deadline`.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Instant,
    ) -> Result<Result<T, Failure>, NoAnswer> {
        let line = self.line(deadline)?;
        serde_json::from_slice(&line).map_err(|error| NoAnswer::Broken(error.to_string()))
    }

    fn line(&mut self, deadline: Instant) -> Result<Vec<u8>, NoAnswer> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            if self.buffer.len() > LONGEST_ANSWER {
                return Err(NoAnswer::Broken("its answer does not end".into()));
            }
            self.wait(deadline)?;
            match nix::unistd::read(self.worker.channel.as_fd(), &mut self.part) {
                // Reset: with a question that it has not read.
                Ok(0) | Err(Errno::ECONNRESET) => {
                    return Err(NoAnswer::Broken("it exited without an answer".into()));
                }
                Ok(n) => self.buffer.extend_from_slice(&self.part[..n]),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(broken(errno)),
            }
        }
    }

    fn wait(&self, deadline: Instant) -> Result<(), NoAnswer> {
        let late = run_clock::now() >= deadline;
        match poll::readable(&self.worker.channel, deadline) {
            Ok(true) if !late => Ok(()),
            Ok(_) => Err(NoAnswer::Late),
            Err(errno) => Err(broken(errno)),
        }
    }

    /// Ends the connection, and waits until the worker has ended it too, which it does by
    /// exiting: no process is told of the end of a child that sends no signal, and to look
    /// for it again and again takes longer. Until `deadline` at most, and not for long: what
    /// the library has left running may have the other end too. Then the process is looked
    /// at; false if it did not exit.
    pub fn end(self, deadline: Instant) -> bool {
        let Worker { channel, end } = self.worker;
        if shutdown(channel.as_raw_fd(), Shutdown::Write).is_ok() {
            let _ = poll::readable(&channel, deadline.min(run_clock::now() + HANG_UP));
        }
        drop(channel);
        end(deadline)
    }
}

fn broken(errno: Errno) -> NoAnswer {
    NoAnswer::Broken(reason(&errno.into()))
}

/// A connection to a worker: both ends close-on-exec and above the standard streams.
///
/// # Errors
///
/// Those of socketpair(2).
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    socket_pair(SockType::Stream)
}
