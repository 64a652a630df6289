//! One create-cudawrap at a time in a directory: the steps of two would mix. Any user who
//! may read the directory can hold this lock, so it is waited for a limited time.

use std::fs::File;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use fs4::{FileExt, TryLockError};
use getgpu_model::{Failure, reason};

use crate::causes::PathCause;

/// How long the lock is waited for.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);
/// How long [`give_way`] leaves the lock free: several tries of one that waits.
const GIVEN: Duration = Duration::from_millis(3);

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
                return Err(PathCause::DirectoryLocked { seconds }.into());
            }
            Err(_) if if_no_locks == IfNoLocks::GoOn => return Ok(()),
            Err(TryLockError::Error(error)) => {
                let why = reason(&error);
                return Err(PathCause::DirectoryWithoutLocks { why }.into());
            }
        }
    }
}

/// Leaves the lock, which the caller has released and is about to take again, to those who
/// wait for it: their tries would rarely meet the moment in which it is free.
pub fn give_way() {
    std::thread::sleep(GIVEN);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use nix::fcntl::OFlag;

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

    /// Between two programs of a run the lock is free for an instant.
    #[test]
    fn one_that_takes_the_lock_again_and_again_lets_others_in() {
        let directory = tempfile::tempdir().unwrap();
        let open = || File::open(directory.path()).unwrap();
        let is_over = AtomicBool::new(false);
        let first = open();
        lock(&first, PATIENCE, IfNoLocks::Refuse).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut held = first;
                while !is_over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                    drop(held);
                    give_way();
                    held = open();
                    lock(&held, PATIENCE, IfNoLocks::Refuse).unwrap();
                }
            });
            let waited = lock(&open(), PATIENCE, IfNoLocks::Refuse);
            is_over.store(true, Ordering::Relaxed);
            waited.unwrap();
        });
    }

    /// No lock can be taken through a descriptor that only names a file (open(2), O_PATH), as
    /// through none on a file system without locks.
    #[test]
    fn a_directory_that_cannot_be_locked_needs_force() {
        let directory = tempfile::tempdir().unwrap();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let named = nix::fcntl::open(directory.path(), flags, nix::sys::stat::Mode::empty());
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
