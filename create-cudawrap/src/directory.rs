//! The directory that a path lies in, held open: every change goes through this
//! descriptor, so nothing can be led elsewhere. One method is one system call; what the
//! calls together mean is decided in `plan` and `apply`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use getgpu_linux::Identity;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, readlinkat, renameat};
use nix::sys::stat::{FileStat as Stat, Mode, fstat, fstatat};
use nix::sys::statfs::{Statfs, fstatfs};
use nix::unistd::{UnlinkatFlags, fsync, linkat, symlinkat, unlinkat};

/// Device and inode in a stat.
pub fn id(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

#[derive(Debug)]
pub struct Directory {
    pub file: File,
    pub path: PathBuf,
}

impl Directory {
    /// Opens the directory at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = open(path, flags, Mode::empty())?;
        Ok(Self {
            file: File::from(fd),
            path: path.to_owned(),
        })
    }

    /// The directory itself.
    pub fn own_stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.file)?)
    }

    /// The file system it is on.
    pub fn filesystem(&self) -> io::Result<Statfs> {
        Ok(fstatfs(&self.file)?)
    }

    /// What has the name: a link itself.
    pub fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        self.stat_with(name, AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    /// What the name leads to.
    pub fn stat_behind(&self, name: &OsStr) -> io::Result<Stat> {
        self.stat_with(name, AtFlags::empty())
    }

    fn stat_with(&self, name: &OsStr, flags: AtFlags) -> io::Result<Stat> {
        Ok(fstatat(&self.file, name, flags)?)
    }

    /// The text of the link at `name`.
    pub fn readlink(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(readlinkat(&self.file, name)?)
    }

    /// A new link; fails when the name is taken.
    pub fn symlink(&self, text: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(symlinkat(text, &self.file, name)?)
    }

    /// A second name for the same file, or for the same link; fails when it is taken.
    pub fn hard_link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(linkat(&self.file, from, &self.file, to, AtFlags::empty())?)
    }

    /// Renames over whatever has the new name.
    pub fn rename_over(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.file, from, &self.file, to)?)
    }

    /// Removes the name.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Makes what was done so far survive a power cut, on file systems that can.
    pub fn sync(&self) -> io::Result<()> {
        match fsync(&self.file) {
            Err(Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
