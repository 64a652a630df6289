//! Replacing a file that others read, the metrics or what is known of devices, as root in a directory
//! that an administrator has named: written
//! beside it and renamed, so that no reader gets half of it, and in no place to which another user's
//! link could lead.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Replaces the file at `path`; everyone can read it. Gives it, opened.
///
/// # Errors
///
/// Its directory is not root's alone, or a system call fails.
pub fn replace(path: &Path, text: &str) -> io::Result<File> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::other("it is no file"));
    };
    let mut new = name.to_owned();
    new.push(".new");
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(directory.unwrap_or(Path::new(".")))?;
    if let Some(why) = fault(&directory.metadata()?) {
        return Err(io::Error::other(why));
    }
    // What a monitor that was killed has left.
    match unlinkat(&directory, new.as_os_str(), UnlinkatFlags::NoRemoveDir) {
        Err(error) if error != Errno::ENOENT => return Err(error.into()),
        _ => {}
    }
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let made: OwnedFd = openat(
        &directory,
        new.as_os_str(),
        flags,
        Mode::from_bits_truncate(0o600),
    )?;
    let mut made = File::from(made);
    made.write_all(text.as_bytes())?;
    // Whatever the umask is.
    made.set_permissions(PermissionsExt::from_mode(0o644))?;
    renameat(&directory, new.as_os_str(), &directory, name)?;
    Ok(made)
}

/// Why another user could exchange names in a directory.
fn fault(directory: &Metadata) -> Option<String> {
    let (owner, mode) = (directory.uid(), directory.mode());
    if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
        return Some(format!(
            "its directory belongs to uid {owner}, and has to be root's"
        ));
    }
    // In a sticky directory only root can rename or remove a file of root's (unlink(2), EPERM).
    (mode & 0o022 != 0 && mode & 0o1000 == 0)
        .then(|| "others can write to its directory".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_planted_link_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        // Whatever the umask is.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        fs::write(at("victim"), "kept").unwrap();
        fs::set_permissions(at("victim"), Permissions::from_mode(0o600)).unwrap();
        for name in ["a.prom", "a.prom.new"] {
            symlink("victim", at(name)).unwrap();
        }
        replace(&at("a.prom"), "text").unwrap();
        let meta = fs::symlink_metadata(at("a.prom")).unwrap();
        assert!(meta.is_file() && meta.mode() & 0o777 == 0o644);
        assert_eq!(fs::read_to_string(at("a.prom")).unwrap(), "text");
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "kept");
        assert_eq!(fs::metadata(at("victim")).unwrap().mode() & 0o777, 0o600);
        assert!(fs::symlink_metadata(at("a.prom.new")).is_err());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.prom");
        for (mode, is_fine) in [
            (0o755, true),
            (0o1777, true),
            (0o777, false),
            (0o775, false),
        ] {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(replace(&file, "text").is_ok(), is_fine, "{mode:o}");
        }
    }
}
