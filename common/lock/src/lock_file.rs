//! Finding the lock file and opening it safely: a FIFO in a directory that no stranger
//! can write to. In any doubt there is no lock place, and without one nothing is handed
//! out.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::{OfdLock, create};
use getgpu_linux::{
    LockOrigin, OwnLock, Range, descriptors::above_standard, procfs::fdinfo, trust,
};
use getgpu_model::{Failure, reason};

use crate::causes::{LockCause, LockFileFault};

/// The lock of the host.
pub const HOST_LOCK: &str = "/run/getgpu/lock";

/// A lock file that was looked at and may be used.
#[derive(Clone, Debug)]
pub struct LockFile {
    /// Path of the FIFO.
    pub path: PathBuf,
    /// Where the path came from.
    pub origin: LockOrigin,
    /// Device and inode, so that every later opening is of the same file.
    pub identity: (u64, u64),
}

impl LockFile {
    /// The lock to use: GETGPU_LOCK (`environment`), else `configured`, else the host's,
    /// else a private one.
    ///
    /// # Errors
    ///
    /// It cannot be created or opened, or its directory or owner cannot be trusted.
    pub fn find(
        environment: Option<PathBuf>,
        configured: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let (path, origin) = match (environment, configured) {
            // A bare name has no directory that could be looked at.
            (Some(path), _) => (
                std::path::absolute(&path).unwrap_or(path),
                LockOrigin::Environment,
            ),
            (None, Some(path)) => (path, LockOrigin::Host),
            (None, None) => (PathBuf::from(HOST_LOCK), LockOrigin::Host),
        };
        let default = origin == LockOrigin::Host && path == Path::new(HOST_LOCK);
        create::if_missing(&path, origin)?;
        if default && !exists(Path::new("/run/getgpu"))? {
            let directory = PathBuf::from(format!("/tmp/getgpu-{}", nix::unistd::geteuid()));
            let path = directory.join("lock");
            create::private(&directory, &path)?;
            return Self::check(path, LockOrigin::Private);
        }
        Self::check(path, origin)
    }

    fn check(path: PathBuf, origin: LockOrigin) -> Result<Self, Failure> {
        let mut place = Self {
            path,
            origin,
            identity: (0, 0),
        };
        (_, place.identity) = place.open_checked(OFlag::O_RDONLY)?;
        Ok(place)
    }

    /// What of a region a process's `locks` on this file cover.
    pub fn shown(&self, locks: &[OwnLock], region: Range) -> Vec<Range> {
        fdinfo::within(locks, self.identity.1, region)
    }

    /// A new open file description that can be write-locked.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or can no longer be trusted.
    pub fn open(&self) -> Result<OfdLock, Failure> {
        let (lock, _) = self.open_checked(OFlag::O_RDWR)?;
        Ok(lock)
    }

    /// A new open file description that can be read-locked only; what a program may
    /// inherit.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or can no longer be trusted.
    pub fn open_read_only(&self) -> Result<OfdLock, Failure> {
        let (lock, _) = self.open_checked(OFlag::O_RDONLY)?;
        Ok(lock)
    }

    /// Opens and checks every time: owner, kind and directory are what the trust rests
    /// on. Returns the file's device and inode too.
    fn open_checked(&self, access: OFlag) -> Result<(OfdLock, (u64, u64)), Failure> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let before = std::fs::symlink_metadata(directory).map_err(|e| self.not_opened(&e))?;
        trust::directory(self.origin, directory, &before)
            .map_err(|why| self.refused(LockFileFault::Distrusted { why }))?;
        let flags =
            access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let fd = open(&self.path, flags, Mode::empty()).map_err(|e| self.not_opened(&e.into()))?;
        let fd = above_standard(fd).map_err(|e| self.not_opened(&e))?;
        let file = std::fs::File::from(fd);
        let meta = file.metadata().map_err(|e| {
            let why = reason(&e);
            self.refused(LockFileFault::NotLookedAt { why })
        })?;
        let after = std::fs::symlink_metadata(directory).map_err(|e| self.not_opened(&e))?;
        if (before.dev(), before.ino()) != (after.dev(), after.ino()) {
            return Err(self.refused(LockFileFault::DirectoryReplaced));
        }
        if !meta.file_type().is_fifo() {
            return Err(self.refused(LockFileFault::NotFifo));
        }
        if !trust::owner(self.origin, meta.uid()) {
            return Err(self.refused(LockFileFault::Foreign { uid: meta.uid() }));
        }
        let identity = (meta.dev(), meta.ino());
        if self.identity != (0, 0) && self.identity != identity {
            return Err(self.refused(LockFileFault::Replaced));
        }
        Ok((OfdLock::new(file.into()), identity))
    }

    fn not_opened(&self, error: &io::Error) -> Failure {
        let why = reason(error);
        self.refused(LockFileFault::NotOpened { why })
    }

    fn refused(&self, why: LockFileFault) -> Failure {
        let remedy = match self.origin {
            LockOrigin::Host => {
                "an administrator can restore it: systemd-tmpfiles --create getgpu.conf"
            }
            LockOrigin::Environment => "GETGPU_LOCK names it",
            LockOrigin::Private => "move it out of the way",
        };
        let path = self.path.display();
        LockCause::Unusable { path, why, remedy }.into()
    }
}

/// Whether `path` exists; an error that leaves that open is an error, since it must not
/// end in a private lock.
fn exists(path: &Path) -> Result<bool, Failure> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => {
            let (path, why) = (path.display(), reason(&error));
            Err(LockCause::Unseen { path, why }.into())
        }
    }
}

#[cfg(test)]
#[path = "lock_file_tests.rs"]
mod tests;
