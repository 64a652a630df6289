//! Files beside the lock, one for a job, that the hooks leave for each other: a hook keeps a lock on
//! such a file while it works (flock(2)), which the kernel drops when the hook is killed, and the file
//! stays. Only root can open one, and so only a hook can lock it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fs4::FileExt;
use getgpu_model::quantity::digits;

/// The mode of a file that no other user can lock.
const PRIVATE: u32 = 0o600;
/// More bytes than such a file has.
const MOST: usize = 32;

/// What to do where another hook works on the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum IfLocked {
    Wait,
    LeaveIt,
}

/// A file that this hook has locked.
pub struct LockedFile {
    path: PathBuf,
    pub file: File,
}

impl LockedFile {
    /// Makes the file, or waits for the hook that works on it.
    ///
    /// # Errors
    ///
    /// Of mkdir(2), open(2) or flock(2).
    pub fn create(mut path: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        loop {
            let file = OpenOptions::new()
                .create(true)
                .read(true)
                .write(true)
                .truncate(false)
                .mode(PRIVATE)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)?;
            // An older version's, which another user may have locked.
            if !is_private(&file) {
                std::fs::remove_file(&path)?;
                continue;
            }
            FileExt::lock(&file)?;
            let locked = Self { path, file };
            // Another hook may have removed it just before.
            if locked.is_in_place() {
                return Ok(locked);
            }
            path = locked.path;
        }
    }

    /// The file of another hook; none if there is none, or if it is locked and is to be left.
    pub fn open(path: PathBuf, if_locked: IfLocked) -> Option<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .ok()?;
        match if_locked {
            _ if !is_private(&file) => {}
            IfLocked::Wait => FileExt::lock(&file).ok()?,
            IfLocked::LeaveIt => FileExt::try_lock(&file).ok()?,
        }
        let locked = Self { path, file };
        locked.is_in_place().then_some(locked)
    }

    /// Replaces what the file says.
    ///
    /// # Errors
    ///
    /// Of ftruncate(2) or write(2).
    pub fn write(&self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }

    /// What the file says; nothing if it cannot be read.
    pub fn text(&self) -> String {
        let mut bytes = [0; MOST];
        let count = self.file.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned()
    }

    fn is_in_place(&self) -> bool {
        let own = self.file.metadata().map(|meta| meta.ino()).ok();
        let there = std::fs::symlink_metadata(&self.path).map(|meta| meta.ino());
        own == there.ok()
    }

    /// What it was left for is done.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The file of a job.
pub fn path(folder: &Path, prefix: &str, job: &str) -> PathBuf {
    folder.join(format!("{prefix}{job}"))
}

fn is_private(file: &File) -> bool {
    file.metadata().is_ok_and(|meta| meta.mode() & 0o077 == 0)
}

/// The jobs that have a file whose name is `prefix` and the job's number.
pub fn jobs(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| {
            let number = name.strip_prefix(prefix)?;
            digits::<u64>(number).map(|_| number.to_owned())
        })
        .collect()
}
