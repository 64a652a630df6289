//! Starting a holder: forked twice so that no child appears in the caller's wait,
//! executed afresh so that it is small and has nothing of NVML's, with an empty
//! environment, its own session, and no descriptor but the lock and the word from its
//! starter.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::lock::OfdLock;
use getgpu_common::nvml_client::channel;
use getgpu_common::process_reset;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};

use super::HolderArgs;

/// Where the holder finds the lock.
pub const LOCK_FD: RawFd = process_reset::FIRST;
/// Where the holder finds its starter.
pub const STARTER_FD: RawFd = process_reset::SECOND;
/// The word that ends a holder whose device was never printed.
pub const CANCEL: u8 = b'c';
/// The word that the device was printed.
const PRINTED: u8 = b'p';
/// How long a holder may take to be ready.
const READY: Duration = Duration::from_secs(10);

/// A holder that has taken the reservation over and waits for the word.
#[derive(Debug)]
pub struct Started(File);

/// The user that the holder is to be, where that is not our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its first group; no other.
    pub gid: u32,
}

/// Starts a holder for a settled reservation. When this returns the reservation is the
/// holder's.
pub fn start(line: &HolderArgs, lock: OfdLock, user: Option<User>) -> Result<Started, Failure> {
    let failed = |why: &str| {
        Failure::new(
            Kind::LockPlace,
            format!("cannot start the holder of the reservation: {why}"),
        )
    };
    let (ours, theirs) = channel().map_err(|e| failed(&reason(&e)))?;
    launch(line, lock.into_fd(), theirs, user).map_err(|e| failed(&reason(&e.into())))?;
    let mut ours = File::from(ours);
    let mut ready = [0u8; 1];
    match wait_readable(&ours).and_then(|()| ours.read(&mut ready).map_err(|e| reason(&e))) {
        Ok(1) => Ok(Started(ours)),
        Ok(_) => Err(failed("it ended at once")),
        Err(why) => Err(failed(&why)),
    }
}

fn wait_readable(file: &File) -> Result<(), String> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let timeout = PollTimeout::try_from(READY).unwrap_or(PollTimeout::MAX);
    loop {
        match poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) => return Err("it is not ready after 10 s".into()),
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(reason(&errno.into())),
        }
    }
}

impl Started {
    /// The device was printed: the reservation begins its life.
    pub fn printed(mut self) {
        let _ = self.0.write_all(&[PRINTED]);
    }

    /// Nothing was printed: ends the holder and waits until the device is free.
    pub fn cancel(mut self) {
        let _ = self.0.write_all(&[CANCEL]);
        // The connection's end closes with the holder's last descriptor.
        let _ = wait_readable(&self.0);
        let _ = self.0.read(&mut [0u8; 1]);
    }
}

fn launch(
    line: &HolderArgs,
    lock: OwnedFd,
    starter: OwnedFd,
    user: Option<User>,
) -> nix::Result<()> {
    let program = CString::from(c"/proc/self/exe");
    let mut words = vec![CString::from(c"getgpu"), CString::from(c"--holder")];
    words.extend(line.words());
    // SAFETY: this program has one thread, so the child may go on with all of its memory.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            drop((lock, starter));
            match waitpid(child, None) {
                // With SIGCHLD ignored the kernel reaps it itself.
                Ok(_) | Err(nix::errno::Errno::ECHILD) => Ok(()),
                Err(errno) => Err(errno),
            }
        }
        ForkResult::Child => {
            let _ = nix::unistd::setsid();
            // SAFETY: as above. The child's child is nobody's child that the caller could
            // wait for.
            if let Ok(ForkResult::Child) = unsafe { fork() } {
                become_holder(
                    &program,
                    &words,
                    lock.as_raw_fd(),
                    starter.as_raw_fd(),
                    user,
                );
            }
            // SAFETY: _exit runs nothing of the parent's.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Arranges the descriptors and executes; returns only if it cannot.
fn become_holder(
    program: &CString,
    words: &[CString],
    lock: RawFd,
    starter: RawFd,
    user: Option<User>,
) {
    if !process_reset::arrange(lock, starter) {
        return;
    }
    if user.is_some_and(|user| turn_into(user).is_err()) {
        return;
    }
    let nothing: [CString; 0] = [];
    let _ = nix::unistd::execve(program, words, &nothing);
}

/// Gives up what is root's, groups first, since afterwards it may not.
fn turn_into(user: User) -> nix::Result<()> {
    use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
    setgroups(&[Gid::from_raw(user.gid)])?;
    setgid(Gid::from_raw(user.gid))?;
    setuid(Uid::from_raw(user.uid))
}
