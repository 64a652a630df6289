//! What a monitor knows of devices, left for calls that any user may make: a file beside the lock, in
//! a directory that only root may write to. An old file says nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use getgpu_lock::LockFile;
use getgpu_model::Uuid;
use serde::{Deserialize, Serialize};

/// A monitor writes the file once a minute; one that is older was left by a monitor that has
/// exited.
const OLD: Duration = Duration::from_secs(180);

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
    let path = file_of(lock_file);
    let meta = std::fs::metadata(&path);
    // A FIFO, in a directory of one's own, would be waited for.
    let is_file = meta.as_ref().is_ok_and(std::fs::Metadata::is_file);
    let written = meta.and_then(|meta| meta.modified());
    let age = written.map(|written| SystemTime::now().duration_since(written));
    if !matches!(age, Ok(Ok(age)) if age < OLD) {
        return Watched::new();
    }
    let text = is_file.then(|| std::fs::read(&path).unwrap_or_default());
    serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default()
}
