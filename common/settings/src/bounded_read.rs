//! Reading a file whose place another user may have prepared: it neither waits at a pipe
//! without a writer nor reads a device without end.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// More bytes than any list or settings file has.
const MOST: u64 = 16 << 20;

/// All bytes of a file (or of /dev/null); a pipe, a socket or a file of over 16 MiB is an
/// error.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Without O_NONBLOCK the open itself would wait for a writer.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::other("it is longer than 16 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn files_are_read_and_nothing_else_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(read(&file).unwrap(), b"x");
        assert_eq!(read(std::path::Path::new("/dev/null")).unwrap(), b"");
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for bad in [
            pipe.as_path(),
            directory.path(),
            std::path::Path::new("/dev/zero"),
        ] {
            assert!(read(bad).is_err(), "{}", bad.display());
        }
    }
}
