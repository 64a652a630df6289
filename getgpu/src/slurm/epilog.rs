//! The Epilog: gives up what the prolog reserved for a job, and removes the job's mark.
//! It may run twice, or without a prolog before it.

use getgpu_model::Failure;

use super::{Context, job_number, mark, tell};
use crate::release;

/// Runs it; none: the status is 0.
pub fn run(context: &Context) -> Option<i32> {
    let job = job_number("epilog")?;
    if let Some(wrong) = &context.wrong {
        tell::log("epilog", &wrong.message);
    }
    mark::clear(&context.marks(), &job);
    if let Err(failure) = release(context, &job) {
        tell::log("epilog", &format!("job {job}: {}", failure.message));
    }
    None
}

/// Gives up a job's part, if it has one.
pub fn release(context: &Context, job: &str) -> Result<(), Failure> {
    release::part_of_job(&context.lock_file()?, job, &super::DIAG)
}
