//! The Prolog: reserves a part of a device for a job that asks for one by a constraint or
//! its partition, under the name slurm-JOB, until the epilog gives it up. Slurm runs it as
//! root; first it clears what no epilog has cleared.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use getgpu_linux::{Stat, procfs, sys};
use getgpu_lock::{HolderArgs, Role, ownership_proof};
use getgpu_model::{Failure, Job};

use super::job_part::{self, SearchEffort};
use super::locked_file::IfLocked;
use super::{Context, ended, job_number, mark, memory_limit, part, tag, tell, variable};
use getgpu_core::options::Format;

use crate::causes::SlurmCause;

/// Runs it; none: the status is 0.
pub fn run(context: &Context) -> Option<i32> {
    let job = job_number("prolog")?;
    if let Some(wrong) = &context.wrong {
        let text = format!(
            "nothing is reserved until it is corrected: {}",
            wrong.message
        );
        tell::log("prolog", &text);
    }
    clear_old(context, &job);
    if let Some(share) = promised(context) {
        reserve(context, &job, &share);
    }
    None
}

/// The part that the job is promised.
fn promised(context: &Context) -> Option<String> {
    let constraints = variable("SLURM_JOB_CONSTRAINTS").unwrap_or_default();
    let mut words: Vec<&str> = constraints
        .split(|c: char| !c.is_ascii_alphanumeric() && !"_.-".contains(c))
        .collect();
    let partition = variable("SLURM_JOB_PARTITION").unwrap_or_default();
    words.push(&partition);
    let shares = &context.loaded.settings.slurm.shares;
    let first = shares
        .iter()
        .find(|promised| words.contains(&promised.name.as_str()));
    first.map(|promised| promised.share.clone())
}

/// The mark is made first and removed once the part is reserved, so that a prolog that is
/// killed leaves it.
fn reserve(context: &Context, job: &str, share: &str) {
    let mark = mark::make(&context.marks(), job);
    if let Err(error) = &mark {
        log(
            job,
            &format!("it cannot be marked ({error}): without a part it may see all GPUs"),
        );
    }
    let taken = chosen(context, job, share);
    match taken.and_then(|()| memory_limit::enforce(context, job, share)) {
        Ok(()) => {
            if let Ok(mark) = mark {
                mark.remove();
            }
        }
        Err(failure) => {
            log(job, &format!("nothing reserved: {}", failure.message));
            if let Ok(mark) = mark {
                let _ = mark::explain(&mark, failure.kind);
            }
        }
    }
}

fn log(job: &str, text: &str) {
    tell::log("prolog", &format!("job {job}: {text}"));
}

fn chosen(context: &Context, job: &str, share: &str) -> Result<(), Failure> {
    if context.wrong.is_some() {
        return Err(SlurmCause::SettingsWrong.into());
    }
    let uid = variable("SLURM_JOB_UID").unwrap_or_default();
    let settings = &context.loaded.settings.slurm;
    let mut environment = context.environment.clone();
    let own_gpus = variable("CUDA_VISIBLE_DEVICES").is_some()
        || variable("SLURM_JOB_GPUS").is_some_and(|gpus| !gpus.is_empty());
    let mut more: &[String] = &[];
    if !own_gpus {
        // Here the job is granted its device: there is no grant to look for.
        (environment.batch_job, environment.batch_gpus) = (false, None);
        more = &settings.options;
    }
    let own = own_words(settings.wait, share, job, &uid);
    let mut options = part::choosing(more, &own)?;
    options.role = Role::JobPart;
    // Only a task of the same group may see what the holder has (ptrace(2)).
    options.gid = variable("SLURM_JOB_GID").and_then(|gid| gid.parse().ok());
    part::reserve(context, &environment, options, Format::Nothing)
}

/// The hook's own words for getgpu.
pub fn own_words(wait: Duration, share: &str, job: &str, uid: &str) -> Vec<String> {
    let (wait, tag) = (format!("--wait={}", wait.as_secs_f64()), tag(job));
    let words = [
        &wait, "--share", share, "--tag", &tag, "--uid", uid, "--hold=0",
    ];
    words.map(str::to_owned).to_vec()
}

/// Clears what epilogs that were killed have left, and old reservations and marks of jobs
/// that have no step on this node.
fn clear_old(context: &Context, own: &str) {
    let (old, marks) = (context.loaded.settings.slurm.old, context.marks());
    // Of this job's last start: another prolog may just be at it.
    clear_ended(context, own, IfLocked::Wait);
    let ended = ended::jobs(&marks);
    let (reserved, marked) = (jobs_with_old_reservation(context, old), mark::jobs(&marks));
    if ended.is_empty() && reserved.is_empty() && marked.is_empty() {
        return;
    }
    let running = jobs_with_step();
    let is_over = |job: &String| job != own && !running.contains(job);
    let mut ended: Vec<&String> = ended.iter().filter(|job| is_over(job)).collect();
    // One that uses all patience is not the first in each prolog.
    let first = std::process::id() as usize % ended.len().max(1);
    ended.rotate_left(first);
    for job in ended {
        // An epilog that still runs does it itself.
        clear_ended(context, job, IfLocked::LeaveIt);
    }
    for job in reserved.into_iter().filter(is_over) {
        if job_part::give_up(context, &job, None, SearchEffort::Once).is_ok() {
            let text = format!("{}: released, its job has ended", tag(&job));
            tell::log("prolog", &text);
        }
    }
    for job in marked.iter().filter(|job| is_over(job)) {
        mark::clear_old(&marks, job, old);
    }
}

fn clear_ended(context: &Context, job: &str, if_locked: IfLocked) {
    match ended::finish(context, job, if_locked) {
        Ok(false) => {}
        Ok(true) => {
            let text = format!("{}: released, its epilog was interrupted", tag(job));
            tell::log("prolog", &text);
        }
        Err(failure) => log(job, &failure.message),
    }
}

/// The jobs whose youngest reservation is old.
fn jobs_with_old_reservation(context: &Context, old: Duration) -> BTreeSet<String> {
    let Ok(lock_file) = context.lock_file() else {
        return BTreeSet::new();
    };
    let mut youngest: BTreeMap<String, u64> = BTreeMap::new();
    let is_part = |args: &HolderArgs| args.job_of_part().is_some();
    let found = ownership_proof::search(&lock_file, None, &context.patience, &is_part);
    for holder in found.proven {
        if let Some(job) = holder.args.job_of_part() {
            let start = youngest.entry(job.to_owned()).or_default();
            *start = (*start).max(holder.start);
        }
    }
    let now = sys::boot_time();
    youngest
        .into_iter()
        .filter(|(_, start)| now.saturating_sub(sys::after_boot(*start)) >= old)
        .map(|(job, _)| job)
        .collect()
}

/// The jobs with a step here: `slurmstepd: [JOB.STEP]`, of root's alone, since any user
/// can call a process so.
fn jobs_with_step() -> BTreeSet<String> {
    let daemons = procfs::pids().into_iter().filter(|pid| {
        procfs::euid(*pid) == Some(0)
            && Stat::read(*pid).is_some_and(|stat| stat.comm == "slurmstepd")
    });
    daemons
        .filter_map(|pid| Some(Job::of_step(pid)?.number().to_owned()))
        .collect()
}
