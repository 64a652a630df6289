//! What a monitor knows of devices, left for calls that any user may make: a file beside the lock, in
//! a directory that only root may write to. The monitor keeps it locked, so that of one that has
//! exited it says nothing.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use getgpu_linux::Range;
use getgpu_lock::{LockFile, OfdLock};
use getgpu_model::Uuid;
use serde::{Deserialize, Serialize};

/// What a monitor locks of its files.
pub const WHOLE: Range = Range::byte(0);

/// What a monitor knows of a device; times in Unix seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedDevice {
    /// Since when it is held and used by no program.
    pub empty_since: Option<u64>,
    /// Since when it is held and its programs compute nothing.
    pub idle_since: Option<u64>,
    /// How many leases ended there at once while others lasted.
    pub short_leases: Option<usize>,
}

/// The devices of which there is something to say.
pub type Watched = BTreeMap<Uuid, WatchedDevice>;

/// Where the file is.
pub fn file_of(lock_file: &LockFile) -> PathBuf {
    lock_file.path.with_extension("watched")
}

/// What a running monitor has left; nothing if none runs.
pub fn read(lock_file: &LockFile) -> Watched {
    left(&file_of(lock_file)).unwrap_or_default()
}

fn left(path: &Path) -> Option<Watched> {
    // A FIFO, in a directory of one's own, would be waited for.
    std::fs::metadata(path).ok().filter(Metadata::is_file)?;
    let text = std::fs::read(path).ok()?;
    let lock = OfdLock::new(File::open(path).ok()?.into());
    lock.conflict(WHOLE).ok()??;
    serde_json::from_slice(&text).ok()
}
