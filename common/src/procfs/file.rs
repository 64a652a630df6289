//! Reading a file of /proc whole. Its size is not known beforehand and it is read by the thousand, so this takes one buffer
//! that holds nearly all of them, where the standard library would ask for the size and read in small pieces.

use std::fs::File;
use std::io::{ErrorKind, Read, Result};

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

#[cfg(test)]
mod tests {
    use super::{MOST_FILES, whole};

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
