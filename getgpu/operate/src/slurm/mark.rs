//! The mark of a job that was promised a part of a device and has none: an empty file
//! `slurm-JOB` of root's beside the lock. A prolog keeps a lock on it while it runs
//! (flock(2)); why the part could not be given is in the nanoseconds of the file's time.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::locked_file::{self, IfLocked, LockedFile, path};
use getgpu_model::{Kind, quantity::unix_seconds};

/// What the name of a mark begins with.
const PREFIX: &str = "slurm-";

/// Why a job got no part, for its user.
const REASONS: [(Kind, &str); 11] = [
    (Kind::NoneFree, "none was free on this node"),
    (Kind::Refused, "a limit of this node does not allow it"),
    (Kind::Usage, "the settings of this node are wrong"),
    (Kind::NoDriver, "there is no NVIDIA driver on this node"),
    (Kind::NoUsableGpu, "no GPU of this node can be opened"),
    (Kind::NoDevice, "no device of this node can be shared so"),
    (Kind::Nvml, "the NVIDIA driver of this node did not answer"),
    (Kind::LockPlace, "the lock of this node cannot be used"),
    (Kind::NotFound, "the prolog of this node was interrupted"),
    (Kind::NoGrant, "the job was given no GPU on this node"),
    (
        Kind::CannotRun,
        "the driver of this node cannot limit its memory",
    ),
];

/// Marks the job, for as long as nothing is reserved for it. Waits for another prolog
/// of this job.
pub fn make(marks: &Path, job: &str) -> io::Result<LockedFile> {
    let mark = LockedFile::create(path(marks, PREFIX, job))?;
    explain(&mark, Kind::NotFound)?;
    Ok(mark)
}

/// Notes why nothing could be reserved.
pub fn explain(mark: &LockedFile, kind: Kind) -> io::Result<()> {
    let place = REASONS.iter().position(|(known, _)| *known == kind);
    let seconds = Duration::from_secs(unix_seconds());
    let code = Duration::from_nanos(place.map_or(0, |place| place as u64 + 1));
    mark.file.set_modified(UNIX_EPOCH + seconds + code)
}

/// Why a job has no part, if it is marked.
pub fn reason(marks: &Path, job: &str) -> Option<&'static str> {
    let meta = std::fs::symlink_metadata(path(marks, PREFIX, job)).ok()?;
    let code = usize::try_from(meta.mtime_nsec()).unwrap_or(0);
    let known = code.checked_sub(1).and_then(|place| REASONS.get(place));
    Some(known.map_or("it could not be reserved on this node", |(_, text)| text))
}

/// Removes the mark of an ended job.
pub fn clear(marks: &Path, job: &str) {
    let _ = std::fs::remove_file(path(marks, PREFIX, job));
}

/// The jobs that are marked.
pub fn jobs(marks: &Path) -> Vec<String> {
    locked_file::jobs(marks, PREFIX)
}

fn age(mark: &LockedFile) -> Option<Duration> {
    let made = mark.file.metadata().and_then(|meta| meta.modified()).ok()?;
    SystemTime::now().duration_since(made).ok()
}

/// Removes the mark of a job that has no step here, unless it is younger than `old` or a
/// prolog of the job runs.
pub fn clear_old(marks: &Path, job: &str, old: Duration) {
    let mark = LockedFile::open(path(marks, PREFIX, job), IfLocked::LeaveIt);
    if let Some(mark) = mark.filter(|mark| age(mark).is_some_and(|age| age >= old)) {
        mark.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_empty_and_tells_why() {
        let folder = tempfile::tempdir().unwrap();
        let marks = folder.path();
        assert_eq!(reason(marks, "7"), None);
        let mark = make(marks, "7").unwrap();
        let interrupted = "the prolog of this node was interrupted";
        assert_eq!(reason(marks, "7"), Some(interrupted));
        explain(&mark, Kind::Nvml).unwrap();
        let silent = "the NVIDIA driver of this node did not answer";
        assert_eq!(reason(marks, "7"), Some(silent));
        assert_eq!(mark.file.metadata().unwrap().len(), 0);
        assert_eq!(jobs(marks), ["7"]);
        mark.remove();
        assert_eq!(reason(marks, "7"), None);
    }

    #[test]
    fn the_mark_of_a_prolog_that_runs_is_never_old() {
        let folder = tempfile::tempdir().unwrap();
        let marks = folder.path();
        let mark = make(marks, "7").unwrap();
        clear_old(marks, "7", Duration::ZERO);
        assert!(reason(marks, "7").is_some());
        drop(mark);
        clear_old(marks, "7", Duration::from_secs(60));
        assert!(reason(marks, "7").is_some());
        clear_old(marks, "7", Duration::ZERO);
        assert_eq!(reason(marks, "7"), None);
    }
}
