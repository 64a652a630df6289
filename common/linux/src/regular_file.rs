//! Opening a regular file in a place where another user may put anything at any moment: it waits at no
//! pipe, starts no device and, where that is asked, follows no link.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// What to do where the last name of a path is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// The file that it leads to is meant.
    Follow,
    /// It is no regular file.
    Refuse,
}

/// Opens the file at `path` for reading. It is looked at by a descriptor that only names it (open(2),
/// O_PATH), and only then opened, so that no exchange between the two matters.
///
/// # Errors
///
/// Those of open(2) and fstat(2), and `InvalidInput` for what is no regular file.
pub fn open(path: &Path, links: Links) -> io::Result<File> {
    let refused = match links {
        Links::Follow => 0,
        Links::Refuse => libc::O_NOFOLLOW,
    };
    let open = |path: &Path, flags: i32| {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags | libc::O_CLOEXEC);
        options.open(path)
    };
    let named = open(path, libc::O_PATH | refused)?;
    let is = named.metadata()?;
    if !is.is_file() {
        return Err(not_regular());
    }
    let quick = libc::O_NONBLOCK | libc::O_NOCTTY;
    let link = format!("/proc/self/fd/{}", named.as_raw_fd());
    let opened = match open(Path::new(&link), quick) {
        // Without /proc.
        Err(error) if error.kind() == io::ErrorKind::NotFound => open(path, quick | refused)?,
        opened => opened?,
    };
    let identity = |meta: &Metadata| (meta.dev(), meta.ino());
    if identity(&opened.metadata()?) != identity(&is) {
        return Err(not_regular());
    }
    Ok(opened)
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[cfg_attr(miri, ignore = "Miri has no O_PATH")]
    #[test]
    fn only_regular_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("/dev/zero", at("device")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let read = |name: &str, links| {
            let mut text = String::new();
            open(&at(name), links)?.read_to_string(&mut text)?;
            io::Result::Ok(text)
        };
        for (name, links) in [
            ("file", Links::Refuse),
            ("file", Links::Follow),
            ("link", Links::Follow),
        ] {
            assert_eq!(read(name, links).unwrap(), "text", "{name} {links:?}");
        }
        for (name, links) in [
            ("link", Links::Refuse),
            ("device", Links::Follow),
            ("pipe", Links::Follow),
            ("", Links::Follow),
        ] {
            let error = read(name, links).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        let gone = read("gone", Links::Follow).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
