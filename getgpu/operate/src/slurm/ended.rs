//! The note of an epilog that its job has ended, a file `ended-JOB` of root's beside the lock with
//! the uid of the job: made before the epilog gives up the job's part, removed once that is done.
//! Where an epilog was killed between, the next prolog does the rest, however young the part is.

use std::path::Path;

use getgpu_model::Failure;

use super::job_part::{self, SearchEffort};
use super::locked_file::{self, IfLocked, LockedFile, path};
use super::{Context, job_user, tell};

const PREFIX: &str = "ended-";

/// Gives up the part of a job that has ended.
///
/// # Errors
///
/// It is not certain that nothing is left of it: the note stays.
pub fn give_up(context: &Context, job: &str) -> Result<(), Failure> {
    let (note, uid) = (
        LockedFile::create(path(&context.marks(), PREFIX, job)),
        job_user(),
    );
    match &note {
        // Without room for it the next prolog looks at all users' processes.
        Ok(note) => drop(note.write(&uid.map(|uid| uid.to_string()).unwrap_or_default())),
        Err(error) => {
            let text = format!("job {job}: it cannot be noted that it has ended ({error})");
            tell::log("epilog", &text);
        }
    }
    job_part::give_up(context, job, uid, SearchEffort::Patient)?;
    if let Ok(note) = note {
        note.remove();
    }
    Ok(())
}

/// The jobs whose epilogs have not done all.
pub fn jobs(marks: &Path) -> Vec<String> {
    locked_file::jobs(marks, PREFIX)
}

/// Does what the job's epilog has left to do, if there is something; whether there was. Where another
/// epilog may still do it, one look is enough: the next prolog looks again.
///
/// # Errors
///
/// As `give_up`.
pub fn finish(context: &Context, job: &str, if_locked: IfLocked) -> Result<bool, Failure> {
    let Some(note) = LockedFile::open(path(&context.marks(), PREFIX, job), if_locked) else {
        return Ok(false);
    };
    let search = match if_locked {
        IfLocked::Wait => SearchEffort::Patient,
        IfLocked::LeaveIt => SearchEffort::Once,
    };
    job_part::give_up(context, job, note.text().trim().parse().ok(), search)?;
    note.remove();
    Ok(true)
}
