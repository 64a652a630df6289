//! One create-cudawrap at a time in a directory: the steps of two would mix. Any user who
//! may read the directory can hold this lock, so it is waited for a limited time.

use std::fs::File;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use fs4::{FileExt, TryLockError};
use getgpu_model::{Failure, Kind, reason};

/// How long the lock is waited for.
pub const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// What happens where the file system has no locks at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfNoLocks {
    /// Nothing is done there.
    Refuse,
    /// The caller goes on without the lock.
    GoOn,
}

/// Locks the open directory, or file, until it is closed (flock(2)).
///
/// # Errors
///
/// Another process holds the lock for all of `patience`, or the file system has no locks.
pub fn lock(dir: &File, patience: Duration, if_no_locks: IfNoLocks) -> Result<(), Failure> {
    let until = Instant::now() + patience;
    loop {
        match FileExt::try_lock(dir) {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let seconds = patience.as_secs_f32();
                let message = format!("another process has locked its directory for {seconds} s");
                return Err(Failure::new(Kind::Refused, message)
                    .hint("wait until that process exits, or end it (lslocks shows it)"));
            }
            Err(_) if if_no_locks == IfNoLocks::GoOn => return Ok(()),
            Err(TryLockError::Error(error)) => {
                let message = format!("its directory cannot be locked: {}", reason(&error));
                return Err(Failure::new(Kind::Refused, message)
                    .hint("--force skips the lock; make sure nobody else is wrapping here"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (
            File::open(dir.path()).unwrap(),
            File::open(dir.path()).unwrap(),
        );
        lock(&first, Duration::ZERO, IfNoLocks::Refuse).unwrap();
        let (began, patience) = (Instant::now(), Duration::from_millis(50));
        let failure = lock(&second, patience, IfNoLocks::GoOn).unwrap_err();
        assert!(failure.message.contains("another process"), "{failure}");
        assert!(began.elapsed() >= patience);
        drop(first);
        lock(&second, Duration::ZERO, IfNoLocks::Refuse).unwrap();
    }

    /// No lock can be taken through a descriptor that only names a file (open(2), O_PATH), as
    /// through none on a file system without locks.
    #[test]
    fn a_directory_that_cannot_be_locked_needs_force() {
        let directory = tempfile::tempdir().unwrap();
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        let named = rustix::fs::open(directory.path(), flags, rustix::fs::Mode::empty());
        let named = File::from(named.unwrap());
        let failure = lock(&named, PATIENCE, IfNoLocks::Refuse).unwrap_err();
        assert!(
            failure
                .message
                .starts_with("its directory cannot be locked: "),
            "{failure}"
        );
        lock(&named, PATIENCE, IfNoLocks::GoOn).unwrap();
    }
}
