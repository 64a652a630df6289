//! Finding the lock file and opening it safely: a FIFO in a directory that no stranger
//! can write to. In any doubt there is no lock place, and without one nothing is handed
//! out.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::{OfdLock, create};
use getgpu_linux::{LockOrigin, descriptors::above_standard, trust};
use getgpu_model::{Failure, Kind, reason};

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
        let fd = place.open_checked(OFlag::O_RDONLY)?;
        let meta = std::fs::File::from(fd)
            .metadata()
            .map_err(|e| place.failure("cannot be looked at", &e))?;
        place.identity = (meta.dev(), meta.ino());
        Ok(place)
    }

    /// A new open file description that can be write-locked.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or can no longer be trusted.
    pub fn open(&self) -> Result<OfdLock, Failure> {
        self.open_checked(OFlag::O_RDWR).map(OfdLock::new)
    }

    /// A new open file description that can be read-locked only; what a program may
    /// inherit.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or can no longer be trusted.
    pub fn open_read_only(&self) -> Result<OfdLock, Failure> {
        self.open_checked(OFlag::O_RDONLY).map(OfdLock::new)
    }

    /// Opens and checks every time: owner, kind and directory are what the trust rests
    /// on.
    fn open_checked(&self, access: OFlag) -> Result<OwnedFd, Failure> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let before = std::fs::symlink_metadata(directory)
            .map_err(|e| self.failure("cannot be opened", &e))?;
        trust::directory(self.origin, directory, &before).map_err(|why| self.refused(&why))?;
        let flags =
            access | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let fd = open(&self.path, flags, Mode::empty())
            .map_err(|e| self.failure("cannot be opened", &e.into()))?;
        let fd = above_standard(fd).map_err(|e| self.failure("cannot be opened", &e))?;
        let file = std::fs::File::from(fd);
        let meta = file
            .metadata()
            .map_err(|e| self.failure("cannot be looked at", &e))?;
        let after = std::fs::symlink_metadata(directory)
            .map_err(|e| self.failure("cannot be opened", &e))?;
        if (before.dev(), before.ino()) != (after.dev(), after.ino()) {
            return Err(self.refused("its directory was replaced while it was opened"));
        }
        if !meta.file_type().is_fifo() {
            return Err(self.refused("it is not a FIFO"));
        }
        if !trust::owner(self.origin, meta.uid()) {
            return Err(self.refused(&format!(
                "it belongs to uid {}, which is neither root nor you",
                meta.uid()
            )));
        }
        let identity = (meta.dev(), meta.ino());
        if self.identity != (0, 0) && self.identity != identity {
            return Err(self.refused("it was replaced while in use"));
        }
        Ok(file.into())
    }

    fn failure(&self, what: &str, error: &io::Error) -> Failure {
        self.refused(&format!("{what}: {}", reason(error)))
    }

    fn refused(&self, why: &str) -> Failure {
        let failure = Failure::new(
            Kind::LockPlace,
            format!("lock {}: {why}", self.path.display()),
        );
        match self.origin {
            LockOrigin::Host => failure
                .hint("an administrator can restore it: systemd-tmpfiles --create getgpu.conf"),
            LockOrigin::Environment => failure.hint("GETGPU_LOCK names it"),
            LockOrigin::Private => failure.hint("move it out of the way"),
        }
    }
}

/// Whether `path` exists; an error that leaves that open is an error, since it must not
/// end in a private lock.
fn exists(path: &Path) -> Result<bool, Failure> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::new(
            Kind::LockPlace,
            format!("{}: {}", path.display(), reason(&error)),
        )),
    }
}

#[cfg(test)]
#[path = "lock_file_tests.rs"]
mod tests;
