//! The directory that a path lies in, held open: every change goes through this
//! descriptor, so nothing can be led elsewhere. One method is one system call; what the
//! calls together mean is decided in `plan` and `apply`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, StatFs};
use rustix::io::{Errno, retry_on_intr};

/// Whether the kernel is asked to exchange two names in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renames {
    /// As it is: the kernel and the file system decide.
    System,
    /// As on a file system that cannot (NFS and others): every flag of renameat2 is
    /// answered with EINVAL.
    Plain,
}

#[derive(Debug)]
pub struct Directory {
    file: File,
    path: PathBuf,
    renames: Renames,
}

impl Directory {
    /// Opens the directory at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, Renames::System)
    }

    /// The same, as on a file system of the given abilities.
    pub fn open_with(path: &Path, renames: Renames) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?;
        Ok(Self {
            file: File::from(fd),
            path: path.to_owned(),
            renames,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, to lock it or to ask for its owner.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file system it is on.
    pub fn filesystem(&self) -> io::Result<StatFs> {
        Ok(retry_on_intr(|| rustix::fs::fstatfs(&self.file))?)
    }

    /// What is at `name`: a link itself, or what it leads to.
    pub fn stat(&self, name: &OsStr, follow: bool) -> io::Result<rustix::fs::Stat> {
        let flags = if follow {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        Ok(retry_on_intr(|| {
            rustix::fs::statat(&self.file, name, flags)
        })?)
    }

    /// The text of the link at `name`.
    pub fn readlink(&self, name: &OsStr) -> io::Result<std::ffi::OsString> {
        use std::os::unix::ffi::OsStringExt;
        let text = retry_on_intr(|| rustix::fs::readlinkat(&self.file, name, Vec::new()))?;
        Ok(std::ffi::OsString::from_vec(text.into_bytes()))
    }

    /// A new link; fails when the name is taken.
    pub fn symlink(&self, text: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(retry_on_intr(|| {
            rustix::fs::symlinkat(text, &self.file, name)
        })?)
    }

    /// A second name for the same file, or for the same link.
    pub fn hard_link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(retry_on_intr(|| {
            rustix::fs::linkat(&self.file, from, &self.file, to, AtFlags::empty())
        })?)
    }

    /// The two names change places in one step.
    pub fn exchange(&self, a: &OsStr, b: &OsStr) -> io::Result<()> {
        self.rename_with(a, b, RenameFlags::EXCHANGE)
    }

    /// Renames; fails when the new name is taken.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.rename_with(from, to, RenameFlags::NOREPLACE)
    }

    /// Renames over whatever has the new name.
    pub fn rename_over(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(retry_on_intr(|| {
            rustix::fs::renameat(&self.file, from, &self.file, to)
        })?)
    }

    /// Removes the name.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(retry_on_intr(|| {
            rustix::fs::unlinkat(&self.file, name, AtFlags::empty())
        })?)
    }

    /// Makes what was done so far survive a power cut; file systems without such a thing
    /// are taken as they are.
    pub fn sync(&self) -> io::Result<()> {
        match retry_on_intr(|| rustix::fs::fsync(self.file.as_fd())) {
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn rename_with(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> io::Result<()> {
        if self.renames == Renames::Plain {
            return Err(Errno::INVAL.into());
        }
        Ok(retry_on_intr(|| {
            rustix::fs::renameat_with(&self.file, from, &self.file, to, flags)
        })?)
    }
}

/// Whether `error` says that this file system or kernel has no renameat2 of that kind.
pub fn unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::NOSYS)
    )
}
