//! The Epilog: gives up what the prolog reserved for a job, and removes the job's mark.
//! It may run twice, or without a prolog before it.

use super::{Context, ended, job_number, mark, tell};

/// Runs it; none: the status is 0.
pub fn run(context: &Context) -> Option<i32> {
    let job = job_number("epilog")?;
    if let Some(wrong) = &context.wrong {
        tell::log("epilog", &wrong.message);
    }
    mark::clear(&context.marks(), &job);
    if let Err(failure) = ended::give_up(context, &job) {
        tell::log("epilog", &format!("job {job}: {}", failure.message));
    }
    None
}
