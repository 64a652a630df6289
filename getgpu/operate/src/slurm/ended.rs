//! The note of an epilog that its job has ended, an empty file `ended-JOB` of root's beside
//! the lock: made before the epilog gives up the job's part, removed once that is done. Where
//! an epilog was killed between, the next prolog does the rest, however young the part is.

use std::path::{Path, PathBuf};

use getgpu_model::Failure;

use super::locked_file::{self, IfLocked, LockedFile};
use super::{Context, DIAG, tell};
use getgpu_core::release;

const PREFIX: &str = "ended-";

fn path(marks: &Path, job: &str) -> PathBuf {
    marks.join(format!("{PREFIX}{job}"))
}

/// Gives up the part of a job that has ended.
///
/// # Errors
///
/// It is not certain that nothing is left of it: the note stays.
pub fn give_up(context: &Context, job: &str) -> Result<(), Failure> {
    let note = LockedFile::create(path(&context.marks(), job));
    if let Err(error) = &note {
        let text = format!("job {job}: it cannot be noted that it has ended ({error})");
        tell::log("epilog", &text);
    }
    release(context, job)?;
    if let Ok(note) = note {
        note.remove();
    }
    Ok(())
}

/// The jobs whose epilogs have not done all.
pub fn jobs(marks: &Path) -> Vec<String> {
    locked_file::jobs(marks, PREFIX)
}

/// Does what the job's epilog has left to do, if there is something; whether there was.
///
/// # Errors
///
/// As `give_up`.
pub fn finish(context: &Context, job: &str, if_locked: IfLocked) -> Result<bool, Failure> {
    let Some(note) = LockedFile::open(path(&context.marks(), job), if_locked) else {
        return Ok(false);
    };
    release(context, job)?;
    note.remove();
    Ok(true)
}

/// Gives up a job's part, if it has one.
///
/// # Errors
///
/// As [`release::part_of_job`], and that there is no lock.
pub fn release(context: &Context, job: &str) -> Result<(), Failure> {
    release::part_of_job(&context.lock_file()?, job, &DIAG)
}
