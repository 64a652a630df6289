//! Making a missing lock file, with its final mode and without replacing anything. The
//! directory is opened and checked first and everything is made through that descriptor,
//! so that no user can put another one in its place.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, open, renameat2};
use nix::sys::stat::{Mode, SFlag, mkdirat, mknodat, umask};

use getgpu_linux::{LockOrigin, procfs::namespaces, trust};
use getgpu_model::{Failure, reason};

use crate::causes::LockCause;

/// Root makes the host's lock if it is missing, and the caller that of GETGPU_LOCK.
/// Others make nothing.
pub(crate) fn if_missing(path: &Path, origin: LockOrigin) -> Result<(), Failure> {
    let root = nix::unistd::geteuid().is_root();
    if std::fs::symlink_metadata(path).is_ok() || !(root || origin == LockOrigin::Environment) {
        return Ok(());
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let made = match opened(directory) {
        Ok(opened) if trusted(origin, directory, &opened) => fifo(opened.as_fd(), name, 0o666),
        Err(Errno::ENOENT) if origin == LockOrigin::Host => whole(directory, name),
        _ => return Ok(()), // opening the lock will say why not
    };
    match made {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        // Root of a container without rights on /run is no better than an ordinary user.
        Err(Errno::EACCES | Errno::EPERM | Errno::EROFS) if !namespaces::host_users() => Ok(()),
        Err(errno) => Err(cannot(path, errno)),
    }
}

/// The caller's private lock: a directory only they can enter, a FIFO with the sticky bit
/// so that cleaners of /tmp leave it.
pub(crate) fn private(directory: &Path, path: &Path) -> Result<(), Failure> {
    match with_mode(|| mkdirat(AT_FDCWD, directory, Mode::S_IRWXU)) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(cannot(directory, errno)),
    }
    // Another user may have made it, or a link in its place: then nothing is made, and
    // opening the lock says why.
    let Ok(opened) = opened(directory) else {
        return Ok(());
    };
    if !trusted(LockOrigin::Private, directory, &opened) {
        return Ok(());
    }
    match fifo(opened.as_fd(), path.file_name().unwrap_or_default(), 0o1600) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(cannot(path, errno)),
    }
}

/// The directory itself: a link in its place is an error.
fn opened(directory: &Path) -> nix::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    open(directory, flags, Mode::empty()).map(File::from)
}

fn trusted(origin: LockOrigin, path: &Path, opened: &File) -> bool {
    opened
        .metadata()
        .is_ok_and(|meta| trust::directory(origin, path, &meta).is_ok())
}

/// Directory and lock together, so that no process finds the one without the other.
fn whole(directory: &Path, name: &OsStr) -> nix::Result<()> {
    let last = directory.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.with_file_name(format!(".{last}.{}", std::process::id()));
    with_mode(|| mkdirat(AT_FDCWD, &temporary, Mode::from_bits_truncate(0o755)))?;
    let made = opened(&temporary).and_then(|opened| {
        if !trusted(LockOrigin::Host, &temporary, &opened) {
            return Err(Errno::EPERM);
        }
        fifo(opened.as_fd(), name, 0o666)
    });
    let made = made.and_then(|()| {
        renameat2(
            AT_FDCWD,
            &temporary,
            AT_FDCWD,
            directory,
            RenameFlags::RENAME_NOREPLACE,
        )
    });
    if made.is_err() {
        let _ = std::fs::remove_file(temporary.join(name));
        let _ = std::fs::remove_dir(&temporary);
    }
    made
}

/// One call, which replaces nothing and follows no link (mknod(2), EEXIST).
fn fifo(directory: BorrowedFd<'_>, name: &OsStr, mode: u32) -> nix::Result<()> {
    let mode = Mode::from_bits_truncate(mode);
    with_mode(|| mknodat(directory, name, SFlag::S_IFIFO, mode, 0))
}

/// What `make` makes gets its final mode at once: a chmod(2) by name would follow a link
/// that another user put there meanwhile.
fn with_mode<T>(make: impl FnOnce() -> T) -> T {
    let mask = umask(Mode::empty());
    let made = make();
    umask(mask);
    made
}

fn cannot(path: &Path, errno: Errno) -> Failure {
    let (path, why) = (path.display(), reason(&errno.into()));
    LockCause::NotMade { path, why }.into()
}
