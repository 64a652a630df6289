//! Joining: under the mutex a program becomes a client first; then a daemon and a keeper are
//! started if none is there. So the keeper, which ends the daemon under the
//! same mutex, never does so between a look at it and the client's lock.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use getgpu_linux::{Range, run_clock};
use getgpu_lock::OfdLock;
use getgpu_model::Failure;

use super::daemon::{self, Control};
use super::directory::{CLIENTS, KEEPER, MUTEX, MpsDirectory, cannot};
use super::start;
use crate::causes::MpsCause;

/// How long others may take to start or end the daemon.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes this process a client: the descriptor that it is to keep. When this returns the
/// daemon listens.
pub fn join(control: &Control) -> Result<OwnedFd, Failure> {
    let directory = &control.directory;
    let deadline = run_clock::now() + PATIENCE;
    let failed = |error: io::Error| cannot(directory.path(), &error);
    let mutex = enter(control, deadline)?;
    directory.make_for_daemon()?;
    let client = directory.open_read_only().map_err(failed)?;
    // The keeper holds the write lock for an instant when it has waited for the last
    // client.
    let left = deadline.saturating_duration_since(run_clock::now());
    if !client.read_within(CLIENTS, left)? {
        return Err(busy(control));
    }
    let watched = mutex.conflict(KEEPER)?.is_some();
    if !watched || !daemon::listens(directory).map_err(failed)? {
        start::keeper(control, mutex)?;
    }
    Ok(client.into_fd())
}

/// The mutex of a directory that is there and stays there.
fn enter(control: &Control, deadline: Instant) -> Result<OfdLock, Failure> {
    let directory = &control.directory;
    loop {
        directory.make()?;
        match directory.open() {
            Ok(mutex) => {
                let left = deadline.saturating_duration_since(run_clock::now());
                if !mutex.write_within(MUTEX, left)? {
                    return Err(busy(control));
                }
                if directory.is_of(&mutex) {
                    return Ok(mutex);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(directory.path(), &error)),
        }
        // It was removed behind its last client while this process waited for it.
        if run_clock::now() >= deadline {
            return Err(busy(control));
        }
    }
}

fn busy(control: &Control) -> Failure {
    let (uuid, seconds) = (&control.device, PATIENCE.as_secs());
    // `quit` waits for programs that are still its clients although they have closed the
    // descriptor.
    let log = control.directory.log();
    let log = log.display();
    MpsCause::StillBusy { uuid, seconds, log }.into()
}

/// For the keeper: waits without end until `range` can be write-locked through a new
/// description; `None` if opening or locking it fails.
pub fn wait_for(directory: &MpsDirectory, range: Range) -> Option<OfdLock> {
    let description = directory.open().ok()?;
    description.write_when_free(range).ok()?;
    Some(description)
}
