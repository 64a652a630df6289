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
use nix::sys::socket::{
    AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, send, shutdown, socketpair,
};

use crate::error::{Failure, Kind, reason};
use crate::poll;
use crate::procfs::namespaces;
use crate::settings::Settings;
pub use questions::Affinity;
use rules::Rules;
use wire::{Answer, Request};

/// The hidden first argument that makes getgpu the process that asks NVML, on descriptor
/// 0.
pub const WORKER_OPTION: &str = "--nvml-worker";

/// More than this in one answer is a library gone wrong.
const LONGEST_ANSWER: usize = 64 << 20;

/// How long a worker that was told to end may take before its process is looked at.
const HANG_UP: Duration = Duration::from_millis(50);

/// The other process, whichever way it was started.
pub trait Worker {
    /// The connection to it.
    fn channel(&self) -> &OwnedFd;
    /// Waits until it exits, until `deadline` at most; false if it does not (then it was
    /// killed).
    fn end(self, deadline: Instant) -> bool;
}

/// Where a choice gets its session from: one that is open, or one that is opened when it
/// is needed.
pub trait Ask {
    /// The worker of the session.
    type Worker: Worker;
    fn client(&mut self) -> Result<&mut Client<Self::Worker>, Failure>;
}

impl<W: Worker> Ask for Client<W> {
    type Worker = W;

    fn client(&mut self) -> Result<&mut Self, Failure> {
        Ok(self)
    }
}

/// A session that opens at the first question. A waiter claims a device before it asks, so
/// that nobody takes the device while the library loads.
pub struct Later<'a, W: Worker> {
    /// Opens it.
    pub open: &'a mut dyn FnMut() -> Result<Client<W>, Failure>,
    /// The session, once it is open.
    pub opened: Option<Client<W>>,
}

impl<W: Worker> Ask for Later<'_, W> {
    type Worker = W;

    fn client(&mut self) -> Result<&mut Client<W>, Failure> {
        let client = match self.opened.take() {
            Some(client) => client,
            None => (self.open)()?,
        };
        Ok(self.opened.insert(client))
    }
}

/// A session with the process that asks NVML.
pub struct Client<W: Worker> {
    worker: W,
    deadline: Instant,
    limit: Duration,
    buffer: Vec<u8>,
    /// Whether the library is known to be open.
    opened: bool,
}

impl<W: Worker> Client<W> {
    /// Opens a session; the time limit of the settings runs from now on. It is not waited
    /// for: what the library says is read with the answer to the first question.
    pub fn open(worker: W, settings: &Settings) -> Self {
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

    /// All of a session: `ask`, and then its end, whatever came of it. An answer counts
    /// only when the library has let go.
    pub fn ask_all<T>(
        mut self,
        ask: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match ask(&mut self) {
            Ok(answer) => self.close().map(|()| answer),
            Err(failure) => {
                self.abandon();
                Err(failure)
            }
        }
    }

    /// Shuts the library down and waits for the process to be over. Only then do the
    /// answers count.
    pub fn close(mut self) -> Result<(), Failure> {
        let failure = match self.tell(&Request::Quit) {
            Ok(Answer::Bye) => {
                let late = self.late();
                return if self.worker.end(self.deadline) {
                    Ok(())
                } else {
                    Err(late)
                };
            }
            Ok(other) => nonsense(&other),
            Err(failure) => failure,
        };
        // Whoever goes on in spite of the failure must not have its process as a child.
        self.abandon();
        Err(failure)
    }

    /// An answer that is no failure.
    fn ask(&mut self, request: &Request) -> Result<Answer, Failure> {
        match self.tell(request)? {
            Answer::Failed(failure) => Err(failure),
            answer => Ok(answer),
        }
    }

    fn tell(&mut self, request: &Request) -> Result<Answer, Failure> {
        let sent = self.send(request);
        if !self.opened {
            // A process that cannot open the library says so and is gone.
            match self.receive()? {
                Answer::Opened => self.opened = true,
                Answer::Failed(failure) => return Err(failure),
                other => return Err(nonsense(&other)),
            }
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
            match send(
                self.worker.channel().as_raw_fd(),
                rest,
                MsgFlags::MSG_NOSIGNAL,
            ) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(broken(&reason(&errno.into()))),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Answer, Failure> {
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
            match nix::unistd::read(self.worker.channel().as_fd(), &mut part) {
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
        match poll::readable(self.worker.channel(), self.deadline) {
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
}

impl<W: Worker> Client<W> {
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

fn nonsense(answer: &Answer) -> Failure {
    broken(&format!("unexpected answer {answer:?}"))
}

/// Ends a connection, and waits until the worker has ended it too, which it does by
/// exiting: nobody is told of the end of a process that sends no signal, and to look for it
/// again and again takes longer. Until `deadline` at most, and not for long: what the library
/// has left running may have the other end too.
pub fn hang_up(channel: OwnedFd, deadline: Instant) {
    if shutdown(channel.as_raw_fd(), Shutdown::Write).is_ok() {
        // Whatever comes of it, the process is looked at next.
        let _ = poll::readable(&channel, deadline.min(Instant::now() + HANG_UP));
    }
}

/// A connection to a worker: both ends close-on-exec and above the standard streams.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    Ok((
        crate::descriptors::above_standard(ours)?,
        crate::descriptors::above_standard(theirs)?,
    ))
}
