//! Asking NVML from a program that must not load it: another process does, under one time
//! limit for everything. A library that hangs, crashes or talks nonsense ends here, as a
//! failure with a line.

mod questions;
pub mod rules;
pub mod wire;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, SockType, send, shutdown};

use crate::descriptors::socket_pair;
use crate::error::{Failure, Kind, reason};
use crate::poll;
use crate::procfs::namespaces;
use crate::settings::Settings;
use rules::Rules;
use serde::de::DeserializeOwned;
use wire::Request;

/// The hidden first argument that makes getgpu the process that asks NVML, on descriptor
/// 0.
pub const WORKER_OPTION: &str = "--nvml-worker";

/// More than this in one answer is a library gone wrong.
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

impl Worker {
    /// Ends the connection, and waits until the worker has ended it too, which it does by
    /// exiting: no process is told of the end of a child that sends no signal, and to look
    /// for it again and again takes longer. Until `deadline` at most, and not for long: what
    /// the library has left running may have the other end too. Then the process is looked
    /// at; false if it did not exit.
    fn end(self, deadline: Instant) -> bool {
        if shutdown(self.channel.as_raw_fd(), Shutdown::Write).is_ok() {
            let _ = poll::readable(&self.channel, deadline.min(Instant::now() + HANG_UP));
        }
        drop(self.channel);
        (self.end)(deadline)
    }
}

/// A session with the process that asks NVML.
pub struct Client {
    worker: Worker,
    deadline: Instant,
    limit: Duration,
    buffer: Vec<u8>,
    /// Whether the library is known to be open.
    opened: bool,
}

impl Client {
    /// Opens a session; the time limit of the settings runs from now on. It is not waited
    /// for: what the library says is read with the answer to the first question.
    pub fn open(worker: Worker, settings: &Settings) -> Self {
        let limit = settings.nvml_timeout;
        let rules = Rules {
            idle_memory: settings.idle_memory,
            ignore_processes: settings.ignore_processes.clone(),
            container: !namespaces::host_pids(),
        };
        let client = Self {
            worker,
            deadline: Instant::now() + limit,
            limit,
            buffer: Vec::new(),
            opened: false,
        };
        // If it cannot be sent, neither can the first question.
        let _ = client.send(&Request::Open {
            library: settings.library.clone(),
            rules,
        });
        client
    }

    /// Shuts the library down and waits for the process to be over. Only then do the
    /// answers count.
    pub fn close(mut self) -> Result<(), Failure> {
        if let Err(failure) = self.ask(&Request::Quit).and_then(|bye: Result<(), _>| bye) {
            // A caller that continues after the failure must not keep the worker as a child.
            self.abandon();
            return Err(failure);
        }
        let late = self.late();
        if self.worker.end(self.deadline) {
            Ok(())
        } else {
            Err(late)
        }
    }

    /// The answer, or the failure that is the answer; a session that failed gives none.
    fn ask<T: DeserializeOwned>(
        &mut self,
        request: &Request,
    ) -> Result<Result<T, Failure>, Failure> {
        let sent = self.send(request);
        if !self.opened {
            // A process that cannot open the library says so and is gone.
            self.receive::<()>()??;
            self.opened = true;
        }
        sent?;
        self.receive()
    }

    fn send(&self, request: &Request) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(request).map_err(|e| broken(&e.to_string()))?;
        line.push(b'\n');
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            // Not write(2): a worker that crashed must not end us by SIGPIPE.
            let channel = self.worker.channel.as_raw_fd();
            match send(channel, rest, MsgFlags::MSG_NOSIGNAL) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(broken(&reason(&errno.into()))),
            }
        }
        Ok(())
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<Result<T, Failure>, Failure> {
        let line = self.line()?;
        serde_json::from_slice(&line).map_err(|e| broken(&e.to_string()))
    }

    fn line(&mut self) -> Result<Vec<u8>, Failure> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            if self.buffer.len() > LONGEST_ANSWER {
                return Err(broken("its answer does not end"));
            }
            self.wait()?;
            let mut part = [0; 16 << 10];
            match nix::unistd::read(self.worker.channel.as_fd(), &mut part) {
                // Reset: with a question that it has not read.
                Ok(0) | Err(Errno::ECONNRESET) => {
                    return Err(broken("it exited without an answer"));
                }
                Ok(n) => self.buffer.extend_from_slice(&part[..n]),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(broken(&reason(&errno.into()))),
            }
        }
    }

    fn wait(&self) -> Result<(), Failure> {
        let late = Instant::now() >= self.deadline;
        match poll::readable(&self.worker.channel, self.deadline) {
            Ok(true) if !late => Ok(()),
            Ok(_) => Err(self.late()),
            Err(errno) => Err(broken(&reason(&errno.into()))),
        }
    }

    fn late(&self) -> Failure {
        Failure::new(
            Kind::Nvml,
            format!("NVML did not answer within {} s", self.limit.as_secs_f64()),
        )
        .hint("the NVIDIA driver hangs on this node; setting `nvml_timeout` allows more time")
    }

    /// Ends a session whose answers no longer matter, after a failure.
    pub fn abandon(self) {
        let soon = Instant::now() + Duration::from_millis(200);
        self.worker.end(soon.min(self.deadline));
    }
}

fn broken(why: &str) -> Failure {
    Failure::new(
        Kind::Nvml,
        format!("the process that asks NVML failed: {why}"),
    )
    .hint("does `nvidia-smi -L` work on this node?")
}

/// A connection to a worker: both ends close-on-exec and above the standard streams.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    socket_pair(SockType::Stream)
}
