//! Starting a small process of this package that outlives the program, without a trace in
//! the program: no child, no signal, no descriptor. An intermediate made by clone with
//! exit signal 0 forks it and is reaped with __WALL; it is executed with an empty environment,
//! a session of its own, and two descriptors: a lock and the connection to its starter.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::sys::socket::SockType;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::child::clone_process;
use crate::descriptors::{close_from, socket_pair};
use crate::sys;

/// The path by which an executable of this package executes itself. No other program is
/// started under this name, so a program that we run cannot be taken for such a process.
const OURSELVES: &CStr = c"/proc/self/exe";

/// The user that such a process is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildUser {
    /// The user's id.
    pub uid: u32,
    /// The group's id.
    pub gid: u32,
}

/// Where such a process finds the lock that it is given.
pub const LOCK_FD: RawFd = 3;
/// Where it finds the connection to its starter.
pub const STARTER_FD: RawFd = 4;

/// The words behind `option`, if this process was executed by [`start`] with it, and not
/// by a user who typed the word.
pub fn words_behind(option: &str, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let ours = sys::exec_path().is_some_and(|path| path.as_bytes() == OURSELVES.to_bytes());
    let (_, words) = arguments.split_first()?;
    let (word, words) = words.split_first()?;
    (ours && word == option).then(|| words.to_vec())
}

/// Executes this executable once more with these words, its name first, in such a process,
/// which has a copy of `lock` and becomes `user` if that is not our own; gives our end of the
/// connection to it.
///
/// # Errors
///
/// Those of socketpair(2), clone(2) and waitpid(2). Whether the process could be executed it
/// has to say itself.
pub fn start(words: &[CString], lock: RawFd, user: Option<ChildUser>) -> io::Result<OwnedFd> {
    let (ours, theirs) = socket_pair(SockType::Stream)?;
    // A process that is a subreaper would find the new one among its children: for that
    // moment it is none.
    let reaper = prctl::get_child_subreaper().unwrap_or(false);
    let _ = prctl::set_child_subreaper(false);
    // SAFETY: this process has one thread, so the child may use all of its memory.
    let cloned = unsafe { clone_process(0) };
    if cloned == Ok(0) {
        fork_and_exit(words, [lock, theirs.as_raw_fd()], user);
    }
    let waited = cloned.and_then(wait_for);
    let _ = prctl::set_child_subreaper(reaper);
    waited?;
    Ok(ours)
}

fn wait_for(intermediate: libc::pid_t) -> nix::Result<()> {
    loop {
        match waitpid(Pid::from_raw(intermediate), Some(WaitPidFlag::__WALL)) {
            Err(Errno::EINTR) => {}
            waited => return waited.map(drop),
        }
    }
}

fn fork_and_exit(words: &[CString], descriptors: [RawFd; 2], user: Option<ChildUser>) -> ! {
    let _ = nix::unistd::setsid();
    // SAFETY: only system calls follow, in a process with one thread; _exit runs nothing
    // of the parent's.
    unsafe {
        if libc::fork() == 0 {
            execute(words, descriptors, user);
        }
        libc::_exit(0)
    }
}

/// Arranges the descriptors and executes; returns only if it cannot.
fn execute(words: &[CString], descriptors: [RawFd; 2], user: Option<ChildUser>) {
    if !arrange(descriptors) || user.is_some_and(|user| turn_into(user).is_err()) {
        return;
    }
    // SAFETY: two system calls on plain numbers. A caller that has exited must not end
    // it; what it starts has the default again.
    unsafe {
        libc::umask(0o022);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    let _ = nix::unistd::execve(OURSELVES, words, &[] as &[CString]);
}

/// Standard streams on /dev/null, the two descriptors at 3 and 4, every other descriptor
/// closed, working directory `/`, every signal with its default action and none blocked.
/// False if the descriptors cannot be put there: such a process must end, since it would
/// be taken for one that holds what it was given.
fn arrange([first, second]: [RawFd; 2]) -> bool {
    // SAFETY: only system calls on plain numbers, in a process that executes or ends
    // right after.
    unsafe {
        // Out of the way first, since the places 3 and 4 may be each other's.
        let first = libc::fcntl(first, libc::F_DUPFD, 10);
        let second = libc::fcntl(second, libc::F_DUPFD, 10);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if first < 0 || second < 0 || null < 0 {
            return false;
        }
        for (from, to) in [
            (null, 0),
            (null, 1),
            (null, 2),
            (first, LOCK_FD),
            (second, STARTER_FD),
        ] {
            if libc::dup2(from, to) < 0 {
                return false;
            }
        }
        close_from(STARTER_FD + 1);
        libc::chdir(c"/".as_ptr());
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    let _ = SigSet::empty().thread_set_mask();
    true
}

/// Gives up what is root's, groups first, since afterwards it may not.
fn turn_into(user: ChildUser) -> nix::Result<()> {
    use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
    setgroups(&[Gid::from_raw(user.gid)])?;
    setgid(Gid::from_raw(user.gid))?;
    setuid(Uid::from_raw(user.uid))
}
