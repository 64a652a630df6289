//! Starting a keeper without a trace in the program: an intermediate made by clone with exit signal 0 forks it and is reaped with __WALL, and
//! it is executed afresh, with an empty environment, its own session, and no descriptor but the mutex and the word to its starter.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use getgpu_common::afresh;
use getgpu_common::ask::channel;
use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::lock::Description;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::daemon::Control;
use super::place::Place;
use super::words::{self, Line};

/// The path that a keeper is executed by, and nothing else is.
pub const OURSELVES: &str = "/proc/self/exe";
/// How long it may take until the daemon listens or has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts a keeper, which starts the daemon if none listens. The mutex is handed on: until daemon and keeper are there it is the keeper's
/// too, so that nobody comes in between even if this process is killed.
pub fn keeper(place: &Place, control: &Control, mutex: Description) -> Result<(), Failure> {
    let failed =
        |why: &str| Failure::new(Kind::Refused, format!("{}: the MPS daemon cannot be started: {why}", control.device));
    let (ours, theirs) = channel().map_err(|e| failed(&reason(&e)))?;
    let mut line = vec![CString::from(c"cudawrap"), CString::new(words::OPTION).unwrap_or_default()];
    line.extend(Line { place: place.clone(), control: control.clone() }.words());
    launch(&line, mutex.number(), theirs.as_raw_fd()).map_err(|e| failed(&reason(&e.into())))?;
    drop(theirs);
    let answer = answer(File::from(ours)).map_err(|why| failed(&why))?;
    // Only now may others look.
    drop(mutex);
    match answer.split_first() {
        Some((&words::READY, _)) => Ok(()),
        Some((&words::FAILED, text)) => {
            let text = String::from_utf8_lossy(text);
            let (message, hint) = text.split_once('\n').unwrap_or((&text, ""));
            let failure = Failure::new(Kind::Refused, message);
            Err(if hint.is_empty() { failure } else { failure.hint(hint) })
        }
        _ => Err(failed("its keeper ended at once")),
    }
}

/// Everything the keeper says until it closes its end.
fn answer(mut from: File) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + LIMIT;
    let mut answer = Vec::new();
    let mut part = [0u8; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) => return Err(format!("no answer after {} s", LIMIT.as_secs())),
            Ok(_) => match from.read(&mut part) {
                Ok(0) => return Ok(answer),
                Ok(read) => answer.extend_from_slice(&part[..read]),
                Err(error) => return Err(reason(&error)),
            },
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(reason(&errno.into())),
        }
    }
}

/// Runs the intermediate. A process that is a subreaper would find the keeper among its children: for that moment it is none.
fn launch(words: &[CString], mutex: RawFd, starter: RawFd) -> nix::Result<()> {
    let mut reaper: libc::c_int = 0;
    // SAFETY: PR_GET_CHILD_SUBREAPER stores one int; PR_SET_CHILD_SUBREAPER takes a number (prctl(2)).
    let set_reaper = |value: libc::c_int| unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, value, 0, 0, 0) };
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut reaper, 0, 0, 0) };
    if reaper != 0 {
        set_reaper(0);
    }
    // SAFETY: flags 0 is fork(2) with no exit signal; this process has one thread, so the child may use all of its memory.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    let result = match pid {
        -1 => Err(Errno::last()),
        0 => intermediate(words, mutex, starter),
        pid => loop {
            match waitpid(Pid::from_raw(pid as i32), Some(WaitPidFlag::__WALL)) {
                Err(Errno::EINTR) => {}
                Err(errno) => break Err(errno),
                Ok(_) => break Ok(()),
            }
        },
    };
    if reaper != 0 {
        set_reaper(reaper);
    }
    result
}

fn intermediate(words: &[CString], mutex: RawFd, starter: RawFd) -> ! {
    let _ = nix::unistd::setsid();
    // SAFETY: only system calls follow, in a process with one thread; _exit runs nothing of the parent's.
    unsafe {
        if libc::fork() == 0 {
            become_keeper(words, mutex, starter);
        }
        libc::_exit(0)
    }
}

/// Arranges the descriptors and executes; returns only if it cannot.
fn become_keeper(words: &[CString], mutex: RawFd, starter: RawFd) {
    if !afresh::arrange(mutex, starter) {
        return;
    }
    // SAFETY: two system calls on plain numbers. A starter that is gone, or a daemon, must not end it; what it starts has the default again.
    unsafe {
        libc::umask(0o022);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    let nothing: [CString; 0] = [];
    let path = CString::new(OURSELVES).unwrap_or_default();
    let _ = nix::unistd::execve(&path, words, &nothing);
}
