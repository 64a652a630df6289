//! Starting a small process of this package that outlives the program, without a trace in
//! the program: no child, no signal, no descriptor. An intermediate made by clone with
//! exit signal 0 forks it and is reaped with __WALL; it is executed with the environment
//! that it is given and a session of its own.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::child::clone_process;
use crate::{process_reset, sys};

/// The path by which an executable of this package executes itself. No other program is
/// started under this name, so a program that we run cannot be taken for such a process.
pub const OURSELVES: &CStr = c"/proc/self/exe";

/// The user that such a process is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// What such a process is given: its `words`, its name first; the descriptors that it
/// finds at 3 and 4; and the user that it is to be, if not our own.
#[derive(Clone, Copy, Debug)]
pub struct Detached<'a> {
    /// argv.
    pub words: &'a [CString],
    /// Its environment, `NAME=VALUE`.
    pub environment: &'a [CString],
    /// What is to be at 3 and at 4.
    pub descriptors: [RawFd; 2],
    /// Root only.
    pub user: Option<User>,
}

/// The words behind `option`, if this process was executed by [`launch`] with it, and not
/// by a user who typed the word.
pub fn words_behind(option: &str, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let ours = sys::exec_path().is_some_and(|path| path.as_bytes() == OURSELVES.to_bytes());
    let (_, words) = arguments.split_first()?;
    let (word, words) = words.split_first()?;
    (ours && word == option).then(|| words.to_vec())
}

/// Executes this executable once more, in such a process.
///
/// # Errors
///
/// Those of clone(2) and waitpid(2). Whether the process could be executed it has to say
/// itself.
pub fn launch(spec: &Detached<'_>) -> nix::Result<()> {
    // A process that is a subreaper would find the new one among its children: for that
    // moment it is none.
    let mut reaper: libc::c_int = 0;
    // SAFETY: PR_GET_CHILD_SUBREAPER stores one int; PR_SET_CHILD_SUBREAPER takes a
    // number (prctl(2)).
    let set_reaper =
        |value: libc::c_int| unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, value, 0, 0, 0) };
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut reaper, 0, 0, 0) };
    if reaper != 0 {
        set_reaper(0);
    }
    // SAFETY: this process has one thread, so the child may use all of its memory.
    let result = match unsafe { clone_process(0) } {
        Err(errno) => Err(errno),
        Ok(0) => intermediate(spec),
        Ok(pid) => loop {
            match waitpid(Pid::from_raw(pid), Some(WaitPidFlag::__WALL)) {
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

fn intermediate(spec: &Detached<'_>) -> ! {
    let _ = nix::unistd::setsid();
    // SAFETY: only system calls follow, in a process with one thread; _exit runs nothing
    // of the parent's.
    unsafe {
        if libc::fork() == 0 {
            execute(spec);
        }
        libc::_exit(0)
    }
}

/// Arranges the descriptors and executes; returns only if it cannot.
fn execute(spec: &Detached<'_>) {
    let [first, second] = spec.descriptors;
    if !process_reset::arrange(first, second) {
        return;
    }
    if spec.user.is_some_and(|user| turn_into(user).is_err()) {
        return;
    }
    // SAFETY: two system calls on plain numbers. A caller that has exited must not end
    // it; what it starts has the default again.
    unsafe {
        libc::umask(0o022);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    let _ = nix::unistd::execve(OURSELVES, spec.words, spec.environment);
}

/// Gives up what is root's, groups first, since afterwards it may not.
fn turn_into(user: User) -> nix::Result<()> {
    use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
    setgroups(&[Gid::from_raw(user.gid)])?;
    setgid(Gid::from_raw(user.gid))?;
    setuid(Uid::from_raw(user.uid))
}
