//! Where a monitor leaves what it suspects, for `--check`, which any user may run: a file beside
//! the lock, in a directory that only root may write to. A line for each device, with how many
//! leases ended there at once; an old file says nothing.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use getgpu_lock::LockFile;
use getgpu_model::Uuid;

use super::metrics_file;

/// A monitor writes the file once a minute; one that is older was left by a monitor that has
/// exited.
const OLD: Duration = Duration::from_secs(180);

fn file_of(lock_file: &LockFile) -> PathBuf {
    lock_file.path.with_extension("suspects")
}

/// Replaces the file.
///
/// # Errors
///
/// It cannot be written.
pub fn write(lock_file: &LockFile, suspects: &[(Uuid, usize)]) -> io::Result<()> {
    let lines = suspects
        .iter()
        .map(|(uuid, many)| format!("{uuid} {many}\n"));
    metrics_file::replace(&file_of(lock_file), &lines.collect::<String>())
}

/// What a running monitor suspects; nothing if none runs.
pub fn read(lock_file: &LockFile) -> Vec<(Uuid, usize)> {
    let path = file_of(lock_file);
    let written = std::fs::metadata(&path).and_then(|meta| meta.modified());
    let age = written.map(|written| SystemTime::now().duration_since(written));
    if !matches!(age, Ok(Ok(age)) if age < OLD) {
        return Vec::new();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<(Uuid, usize)> {
    let (uuid, many) = line.split_once(' ')?;
    Some((Uuid::parse(uuid)?, many.parse().ok()?))
}
