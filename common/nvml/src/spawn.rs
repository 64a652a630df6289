//! getgpu's way to start the process that asks NVML: a plain fork of itself. The child has the
//! connection and nothing else of the parent's descriptors, not even for a moment that the
//! library could hang in: one that replaces another is started while a claim is held. It dies
//! with the parent, and never returns.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::unistd::{ForkResult, fork};

use getgpu_ask::{Worker, nvml_client::channel};
use getgpu_linux::{descriptors, kill_and_reap, reap, sys};
use getgpu_model::{Failure, reason};

use crate::causes::NvmlCause;

/// Forks a process that serves NVML requests.
///
/// # Errors
///
/// fork(2) failed, for lack of memory or processes; the driver is not at fault.
pub fn fork_worker() -> Result<Worker, Failure> {
    start().map_err(|error| {
        let why = reason(&error);
        NvmlCause::NotForked { why }.into()
    })
}

fn start() -> io::Result<Worker> {
    let (ours, theirs) = channel()?;
    let parent = std::process::id();
    // SAFETY: this program has one thread, so the child may go on with all of its memory.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(Worker {
            channel: ours,
            end: Box::new(move |deadline| {
                let exited = reap(child, deadline).is_some();
                if !exited {
                    kill_and_reap(child);
                }
                exited
            }),
        }),
        ForkResult::Child => {
            drop(ours);
            sys::die_with(parent);
            let theirs = alone(theirs);
            seclude();
            crate::serve::serve(&File::from(theirs));
            // SAFETY: _exit runs nothing of the parent's.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Closes everything but the standard streams and `channel`: a driver that hangs must not
/// keep a claim or a place in the line with it.
fn alone(channel: OwnedFd) -> OwnedFd {
    // SAFETY: the channel lies above the standard streams; whatever had number 3 is not
    // used again in this process.
    let moved = unsafe { libc::dup2(channel.as_raw_fd(), 3) } == 3;
    if !moved {
        return channel;
    }
    std::mem::forget(channel);
    descriptors::close_from(4);
    sys::own_fd(3)
}

/// Standard streams on /dev/null, working directory `/`: a library that prints or looks
/// around finds nothing of the caller's. An empty entry in LD_LIBRARY_PATH then means
/// `/`, not a directory that another user prepared. The library lists GPUs, whatever the
/// caller wants it to list (NVML_MPS_DEVICE_ENUMERATION, nvml.h 13.5: MPS locality
/// domains, which have other UUIDs).
pub fn seclude() {
    // SAFETY: this process has one thread, so no other reads the environment meanwhile.
    unsafe { std::env::remove_var("NVML_MPS_DEVICE_ENUMERATION") };
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        for stream in 0..3 {
            // SAFETY: dup2 onto a standard stream of a process that uses none of them.
            unsafe { libc::dup2(null.as_raw_fd(), stream) };
        }
        if null.as_raw_fd() < 3 {
            std::mem::forget(null);
        }
    }
}
