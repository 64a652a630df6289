//! Joining: under the mutex a program becomes a client first, then it is seen to that a
//! daemon listens and a keeper watches. So the keeper, which ends the daemon under the
//! same mutex, never does so between a look at it and the client's lock.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use getgpu_common::error::{Failure, Kind};
use getgpu_common::lock::{OfdLock, Range};

use super::daemon::{self, Control};
use super::directory::{CLIENTS, KEEPER, MUTEX, MpsDirectory, cannot};
use super::start;

/// How long others may take to start or end the daemon.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Makes this process a client: the descriptor that it is to keep. When this returns the
/// daemon listens.
pub fn join(lock_file: &MpsDirectory, control: &Control) -> Result<OwnedFd, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let failed = |error: io::Error| cannot(lock_file.directory(), &error);
    let mutex = enter(lock_file, control, deadline)?;
    lock_file.make_for_daemon()?;
    let client = lock_file.open_read_only().map_err(failed)?;
    // The keeper holds the write lock for an instant when it has waited for the last
    // client.
    let locked = within(deadline, || client.try_read(CLIENTS)).map_err(failed)?;
    if !locked {
        return Err(busy(lock_file, control));
    }
    let watched = mutex.conflict(KEEPER).map_err(failed)?.is_some();
    if !watched || !daemon::listens(lock_file).map_err(failed)? {
        start::keeper(lock_file, control, mutex)?;
    }
    Ok(client.into_fd())
}

/// The mutex of a directory that is there and stays there.
fn enter(
    lock_file: &MpsDirectory,
    control: &Control,
    deadline: Instant,
) -> Result<OfdLock, Failure> {
    loop {
        lock_file.make()?;
        match lock_file.open() {
            Ok(mutex) => {
                let held = within(deadline, || mutex.try_write(MUTEX))
                    .map_err(|e| cannot(lock_file.directory(), &e))?;
                if !held {
                    return Err(busy(lock_file, control));
                }
                if lock_file.is_of(&mutex) {
                    return Ok(mutex);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(lock_file.directory(), &error)),
        }
        // It was removed behind its last client while we waited for it.
        if Instant::now() >= deadline {
            return Err(busy(lock_file, control));
        }
    }
}

/// Tries until it is true: false if it is not by `deadline`.
fn within(deadline: Instant, mut tried: impl FnMut() -> io::Result<bool>) -> io::Result<bool> {
    let mut pause = Duration::from_micros(200);
    while !tried()? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE);
    }
    Ok(true)
}

fn busy(lock_file: &MpsDirectory, control: &Control) -> Failure {
    let waited = PATIENCE.as_secs();
    let text = format!(
        "{}: the MPS daemon is being started or ended, for {waited} s already",
        control.device
    );
    // `quit` waits for programs that are still its clients although they have closed the
    // descriptor.
    Failure::new(Kind::Refused, text).hint(format!("see {}/control.log", lock_file.log().display()))
}

/// For the keeper: waits without end until `range` can be write-locked through a new
/// description.
pub fn wait_for(lock_file: &MpsDirectory, range: Range) -> io::Result<OfdLock> {
    let description = lock_file.open()?;
    while !description.wait_for(range, getgpu_common::lock::Held::Try)? {}
    Ok(description)
}
