//! The keeper: a small process that starts the daemon for its starter, waits until no
//! process holds a client's lock any more, however they ended, then tells the daemon to
//! quit and removes the directory. If it is killed, the next program starts another.

use std::ffi::OsString;
use std::os::fd::AsFd;

use getgpu_linux::{LOCK_FD, STARTER_FD, sys};
use getgpu_lock::OfdLock;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::client::wait_for;
use super::daemon::{self, AGAIN, Control};
use super::directory::{CLIENTS, KEEPER, MUTEX, cannot};

/// The keeper's main. It finds the locked mutex on descriptor 3 and its starter on
/// descriptor 4.
pub fn main(words: &[OsString]) -> i32 {
    let _ = nix::sys::prctl::set_name(c"cudawrap-mps");
    let Some(control) = Control::parse(words) else {
        return 2;
    };
    let (mutex, starter) = (
        sys::own_fd(LOCK_FD),
        std::fs::File::from(sys::own_fd(STARTER_FD)),
    );
    // A daemon that had them too would hold the mutex, and keep the starter waiting, as
    // long as it lives.
    for inherited in [mutex.as_fd(), starter.as_fd()] {
        if fcntl(inherited, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).is_err() {
            return 1;
        }
    }
    let directory = &control.directory;
    let _unaged = directory.keep_from_cleaners();
    let ours = directory
        .open()
        .ok()
        .filter(|keeper| matches!(keeper.try_write(KEEPER), Ok(true)));
    let started = match daemon::listens(directory) {
        Ok(true) => Ok(()),
        Ok(false) => control.start(),
        Err(error) => Err(cannot(directory.path(), &error)),
    };
    let _ = serde_json::to_writer(&starter, &started);
    drop((starter, mutex));
    match ours {
        Some(ours) => keep(&control, &ours),
        // Another one watches already: only the daemon was missing.
        None => 0,
    }
}

/// Watches over the clients until there is none, and ends the daemon.
fn keep(control: &Control, ours: &OfdLock) -> i32 {
    let directory = &control.directory;
    loop {
        // Released at once: no process that wants to be a client may find it locked while
        // this one waits for the mutex.
        let Some(none_left) = wait_for(directory, CLIENTS) else {
            return 1;
        };
        drop(none_left);
        let Some(mutex) = wait_for(directory, MUTEX) else {
            return 1;
        };
        // Another process has removed the directory; what is there now, if anything,
        // belongs to another daemon.
        if !directory.is_of(ours) {
            return 1;
        }
        match mutex.conflict(CLIENTS) {
            Ok(Some(_)) => {}
            // In doubt whether it listens it is told to end, too, and its directory stays
            // until it has.
            Ok(None) if matches!(daemon::listens(directory), Ok(false)) || control.quit() => {
                directory.remove();
                return 0;
            }
            // The daemon obeys one front end at a time, and another process has one open.
            Ok(None) => {
                drop(mutex);
                std::thread::sleep(AGAIN);
            }
            Err(_) => return 1,
        }
    }
}
