//! One create-cudawrap at a time in a directory: two exchanges at once would cancel each
//! other out. Anybody who may read the directory can hold this lock, so it is waited for
//! a limited time and the holder is named.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use fs4::{FileExt, TryLockError};
use getgpu_common::error::{Failure, Kind, reason};

/// How long the lock is waited for.
pub const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Locks the open directory until it is closed. `force` goes on where the file system has
/// no locks at all.
pub fn lock(dir: &File, patience: Duration, force: bool) -> Result<(), Failure> {
    let until = Instant::now() + patience;
    loop {
        match FileExt::try_lock(dir) {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(_)) if force => return Ok(()),
            Err(TryLockError::Error(error)) => {
                let message = format!("its directory cannot be locked: {}", reason(&error));
                return Err(Failure::new(Kind::Refused, message)
                    .hint("--force skips the lock; make sure nobody else is wrapping here"));
            }
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(held(dir, patience));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}

fn held(dir: &File, patience: Duration) -> Failure {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let pid = dir
        .metadata()
        .ok()
        .and_then(|meta| holder(&locks, meta.dev(), meta.ino()));
    let who = match pid {
        Some(pid) => {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("locked by pid {pid} ({})", name.trim_end())
        }
        None => "locked by another process".to_owned(),
    };
    Failure::new(
        Kind::Refused,
        format!(
            "its directory has been {who} for {} s",
            patience.as_secs_f32()
        ),
    )
    .hint("wait until that process exits, or end it; then try again")
}

/// The pid that holds a flock on that inode; some file systems show another device number
/// there than stat does.
fn holder(locks: &str, dev: u64, ino: u64) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let exact = format!("{major:02x}:{minor:02x}:{ino}");
    let by_inode = format!(":{ino}");
    let find = |matches: &dyn Fn(&str) -> bool| {
        locks.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            match fields.as_slice() {
                [_, "FLOCK", _, _, pid, place, ..] if matches(place) => pid.parse().ok(),
                _ => None,
            }
        })
    };
    find(&|place| place == exact).or_else(|| find(&|place| place.ends_with(&by_inode)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 7 08:01:99 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 08:01:99 0 EOF\n\
                         2: -> FLOCK  ADVISORY  WRITE 4712 08:01:99 0 EOF\n3: FLOCK  ADVISORY  WRITE 12 00:2a:5 0 EOF\n";

    #[test]
    fn the_holder_is_read_from_the_kernels_list() {
        assert_eq!(holder(LOCKS, rustix::fs::makedev(8, 1), 99), Some(4711));
        assert_eq!(holder(LOCKS, rustix::fs::makedev(0, 99), 5), Some(12));
        assert_eq!(holder(LOCKS, rustix::fs::makedev(8, 1), 9), None);
        assert_eq!(holder("garbage\n\n", 1, 1), None);
    }

    #[test]
    fn a_held_lock_is_waited_for_and_then_named() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (
            File::open(dir.path()).unwrap(),
            File::open(dir.path()).unwrap(),
        );
        lock(&first, Duration::ZERO, false).unwrap();
        let failure = lock(&second, Duration::from_millis(50), true).unwrap_err();
        assert!(
            failure
                .message
                .contains(&format!("locked by pid {} (", std::process::id())),
            "{failure}"
        );
        drop(first);
        lock(&second, Duration::ZERO, false).unwrap();
    }
}
