//! Reading a file of /proc whole, and the numbers in a directory of it. Files are read by the thousand and their size is not known
//! beforehand, so this takes one buffer that holds nearly all of them, where the standard library would ask and read in small pieces.

use std::fs::File;
use std::io::{ErrorKind, Read, Result};

use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

/// More than a `status`, a `stat` or a usual environment.
const MOST_FILES: usize = 8192;

/// All bytes of the file at `path`.
///
/// # Errors
///
/// Those of open(2) and read(2): ENOENT and ESRCH where the process is gone, EACCES and EPERM where it may not be read.
pub fn whole(path: &str) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; MOST_FILES];
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            bytes.resize(filled * 2, 0);
        }
        match file.read(bytes.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The names in a directory that are numbers: processes, threads or descriptors; none if it may not be read. The standard library's way
/// panics where a directory cannot be closed, which would end a reservation.
pub fn numbers(path: &str) -> Vec<i32> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let Ok(mut directory) = Dir::open(path, flags, Mode::empty()) else { return Vec::new() };
    directory.iter().flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST_FILES, numbers, whole};

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
        for length in [0, 1, MOST_FILES - 1, MOST_FILES, MOST_FILES + 1, 5 * MOST_FILES] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let bytes: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
            std::fs::write(file.path(), &bytes).unwrap();
            assert_eq!(whole(file.path().to_str().unwrap()).unwrap(), bytes, "{length} bytes");
        }
        assert_eq!(whole("/proc/self/stat").unwrap().last(), Some(&b'\n'));
        assert_eq!(whole("/proc/0/stat").unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
}
