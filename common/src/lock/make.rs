//! Making a missing lock file: under another name, with its final mode, moved into place without replacing anything.
//! Nobody ever sees it half made, and nothing of ours ever removes or replaces it (a reboot does).

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::{Mode, SFlag, fchmodat, mknod};

use super::Origin;
use crate::error::{Failure, Kind, reason};
use crate::procfs::namespaces;

/// Root makes the host's lock if it is missing, and the caller that of GETGPU_LOCK. Others make nothing.
pub fn if_missing(path: &Path, origin: Origin) -> Result<(), Failure> {
    let root = nix::unistd::geteuid().is_root();
    if std::fs::symlink_metadata(path).is_ok() || !(root || origin == Origin::Environment) {
        return Ok(());
    }
    let Some(directory) = path.parent() else { return Ok(()) };
    let made = match std::fs::symlink_metadata(directory) {
        Ok(_) => fifo(path, 0o666),
        Err(error) if error.kind() == io::ErrorKind::NotFound && origin == Origin::Host => whole(directory, path),
        Err(_) => return Ok(()), // opening it will say why not
    };
    match made {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        // Root of a container without rights on /run is no better than an ordinary user.
        Err(Errno::EACCES | Errno::EPERM | Errno::EROFS) if !namespaces::host_users() => Ok(()),
        Err(errno) => Err(cannot(path, errno)),
    }
}

/// The caller's private lock: a directory only they can enter, a FIFO with the sticky bit so that cleaners of /tmp leave it.
pub fn private(directory: &Path, path: &Path) -> Result<(), Failure> {
    match nix::unistd::mkdir(directory, Mode::S_IRWXU) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(cannot(directory, errno)),
    }
    if std::fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    match fifo(path, 0o1600) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(cannot(path, errno)),
    }
}

/// Directory and lock together, so that nobody finds the one without the other.
fn whole(directory: &Path, path: &Path) -> nix::Result<()> {
    let temporary = beside(directory);
    nix::unistd::mkdir(&temporary, Mode::from_bits_truncate(0o755))?;
    let chmod = |path: &Path, mode| {
        fchmodat(AT_FDCWD, path, Mode::from_bits_truncate(mode), nix::sys::stat::FchmodatFlags::FollowSymlink)
    };
    let name = path.file_name().map(|name| temporary.join(name)).ok_or(Errno::EINVAL)?;
    let made =
        chmod(&temporary, 0o755).and_then(|()| fifo(&name, 0o666)).and_then(|()| into_place(&temporary, directory));
    if made.is_err() {
        let _ = std::fs::remove_file(&name);
        let _ = std::fs::remove_dir(&temporary);
    }
    made
}

fn fifo(path: &Path, mode: u32) -> nix::Result<()> {
    let temporary = beside(path);
    mknod(&temporary, SFlag::S_IFIFO, Mode::from_bits_truncate(0o600), 0)?;
    // The mode given to mknod is cut by the umask; this one is not.
    let made =
        fchmodat(AT_FDCWD, &temporary, Mode::from_bits_truncate(mode), nix::sys::stat::FchmodatFlags::FollowSymlink)
            .and_then(|()| into_place(&temporary, path));
    if made.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    made
}

fn into_place(temporary: &Path, path: &Path) -> nix::Result<()> {
    match renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RenameFlags::RENAME_NOREPLACE) {
        Err(Errno::EINVAL | Errno::ENOSYS) if !temporary.is_dir() => {
            // File systems without RENAME_NOREPLACE: a second name does not replace anything either.
            nix::unistd::linkat(AT_FDCWD, temporary, AT_FDCWD, path, nix::fcntl::AtFlags::empty())?;
            nix::unistd::unlink(temporary)
        }
        other => other,
    }
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

fn cannot(path: &Path, errno: Errno) -> Failure {
    Failure::new(Kind::LockPlace, format!("lock {}: cannot be made: {}", path.display(), reason(&errno.into())))
}
