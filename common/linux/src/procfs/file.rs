//! Reading a file of /proc whole, and the numbers in a directory of it. Files are read by
//! the thousand and their size is not known beforehand, so this takes one buffer that
//! holds nearly all of them, where the standard library would ask and read in small
//! pieces.

use std::fs::File;
use std::io::{Read, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

/// More bytes than a `status`, a `stat` or a usual environment has.
const MOST_FILES: usize = 8192;

/// Between two tries while the kernel lacks memory or descriptors.
const PAUSE: Duration = Duration::from_millis(20);
/// Tries of a program that a user waits for.
const TRIES: u32 = 5;

static PERSISTENT: AtomicBool = AtomicBool::new(false);

/// From now on this process tries for as long as the kernel lacks memory or descriptors:
/// what could not be read is not gone.
pub fn persist() {
    PERSISTENT.store(true, Ordering::Relaxed);
}

/// Asks again while the node, not the file, is what is wrong: ENFILE and ENOMEM, for
/// everybody at the moment.
pub(crate) fn retried<T>(persistent: bool, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    for tried in 1.. {
        match ask() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENFILE | libc::ENOMEM)) => {
                if !persistent && tried >= TRIES {
                    return Err(error);
                }
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
    ask()
}

/// All bytes of the file at `path`.
///
/// # Errors
///
/// Those of open(2) and read(2): ENOENT and ESRCH where the process is gone, EACCES and
/// EPERM where it may not be read.
pub fn whole(path: &str) -> Result<Vec<u8>> {
    retried(PERSISTENT.load(Ordering::Relaxed), || read(path))
}

/// The owner of the file at `path`.
///
/// # Errors
///
/// Those of stat(2).
pub fn owner(path: &str) -> Result<u32> {
    use std::os::unix::fs::MetadataExt;
    retried(PERSISTENT.load(Ordering::Relaxed), || {
        Ok(std::fs::metadata(path)?.uid())
    })
}

fn read(path: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(MOST_FILES);
    // Without the question for its size, which no file of /proc knows.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The names in a directory that are numbers: processes, threads or descriptors; none if
/// it may not be read. The standard library's way panics where a directory cannot be
/// closed, which would end a reservation.
pub fn numbers(path: &str) -> Vec<i32> {
    retried(PERSISTENT.load(Ordering::Relaxed), || list_numbers(path)).unwrap_or_default()
}

fn list_numbers(path: &str) -> Result<Vec<i32>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut directory = Dir::open(path, flags, Mode::empty())?;
    let mut found = Vec::new();
    for entry in directory.iter() {
        match entry {
            Ok(entry) => {
                let name = entry.file_name().to_str();
                found.extend(name.ok().and_then(|name| name.parse::<i32>().ok()));
            }
            Err(errno @ (Errno::ENFILE | Errno::ENOMEM)) => return Err(errno.into()),
            Err(_) => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{MOST_FILES, TRIES, numbers, retried, whole};

    #[test]
    fn what_cannot_be_read_for_a_moment_is_not_gone() {
        let asked = |persistent, fails, errno| {
            let mut tries = 0;
            let answer = retried(persistent, || {
                tries += 1;
                let failed = tries <= fails;
                (!failed)
                    .then_some(())
                    .ok_or_else(|| std::io::Error::from_raw_os_error(errno))
            });
            (tries, answer.is_ok())
        };
        for errno in [libc::ENFILE, libc::ENOMEM] {
            assert_eq!(asked(false, 3, errno), (4, true));
            assert_eq!(asked(false, 100, errno), (TRIES, false));
            assert_eq!(asked(true, 10, errno), (11, true));
        }
        assert_eq!(asked(true, 100, libc::ENOENT), (1, false), "gone is gone");
    }

    #[test]
    fn numbers_in_a_directory_are_found() {
        let own = std::process::id() as i32;
        assert!(numbers("/proc").contains(&own) && !numbers("/proc").contains(&0));
        assert!(numbers(&format!("/proc/{own}/task")).contains(&own));
        assert!(numbers("/proc/0/task").is_empty());
        assert!(numbers("/proc/self/stat").is_empty());
    }

    #[test]
    fn a_file_of_any_length_is_read_whole() {
        for length in [
            0,
            1,
            MOST_FILES - 1,
            MOST_FILES,
            MOST_FILES + 1,
            5 * MOST_FILES,
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let bytes: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
            std::fs::write(file.path(), &bytes).unwrap();
            let read = whole(file.path().to_str().unwrap());
            assert_eq!(read.unwrap(), bytes, "{length} bytes");
        }
        assert_eq!(whole("/proc/self/stat").unwrap().last(), Some(&b'\n'));
        let gone = whole("/proc/0/stat").unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ENOENT));
    }
}
