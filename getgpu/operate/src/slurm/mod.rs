//! Slurm's hooks, `getgpu --slurm prolog|task-prolog|epilog`: each reserves or gives up
//! devices as getgpu itself does. A prolog or epilog never fails its job, and a task that
//! should have a device and gets none sees no GPU.

mod ended;
mod epilog;
mod job_part;
mod keep;
mod locked_file;
pub mod mark;
mod memory_limit;
mod part;
mod prolog;
mod task;
mod task_epilog;
mod task_process;
mod task_prolog;
mod tell;
mod wish;

use std::path::PathBuf;
use std::time::Duration;

use getgpu_choose::{Asked, GrantUse, find_lock_file, pool};
use getgpu_linux::CommandLines;
use getgpu_lock::LockFile;
use getgpu_model::{Diag, Failure, Inventory, Verbosity, quantity::digits};
use getgpu_settings::{Environment, Loaded, Settings};

use getgpu_core::options::Hook;

/// How getgpu speaks in a hook: the hook itself reports failures.
const DIAG: Diag = Diag::new("getgpu", Verbosity::Quiet);

/// Runs a hook; gives its exit status.
pub fn run(hook: Hook) -> i32 {
    let context = Context::read(hook);
    match hook {
        Hook::Prolog => prolog::run(&context),
        Hook::TaskProlog => task_prolog::run(&context),
        Hook::Epilog => epilog::run(&context),
    }
    .unwrap_or(0)
}

/// Whether the setting `slurm.options` can be put in force, which else a prolog finds out.
///
/// # Errors
///
/// Its words are wrong, or choose no device.
pub fn check_options(words: &[String]) -> Result<(), Failure> {
    let own = prolog::own_words(Duration::ZERO, "1/2", "4711", "0");
    part::choosing(words, &own)
        .map(drop)
        .map_err(|failure| failure.about("slurm.options"))
}

/// Whether the setting `slurm.options` leaves a device of this node to a job.
///
/// # Errors
///
/// It leaves none.
pub fn check_choice(loaded: &Loaded, inventory: &Inventory) -> Result<(), Failure> {
    let own = prolog::own_words(Duration::ZERO, "1/2", "4711", "0");
    let Ok(options) = part::choosing(&loaded.settings.slurm.options, &own) else {
        // That has been said.
        return Ok(());
    };
    let mut loaded = loaded.clone();
    for_jobs(&mut loaded.settings, Hook::Prolog);
    options.choices.put(&mut loaded)?;
    let environment = Environment::from(|_| None, [], false);
    let asked = Asked::listed(&loaded.settings, &environment, GrantUse::Ignore)?;
    pool::candidates(asked.filter(), inventory, asked.count())
        .map(drop)
        .map_err(|failure| {
            let words = loaded.settings.slurm.options.join(" ");
            failure.about(format_args!("slurm.options: `{words}`"))
        })
}

/// What every hook knows.
struct Context {
    environment: Environment,
    /// The settings; where the file is wrong, those that can be understood, so that it is
    /// known who was promised a part.
    loaded: Loaded,
    /// What is wrong with the file.
    wrong: Option<Failure>,
    /// What processes of users may still cost the hook.
    patience: CommandLines,
}

impl Context {
    fn read(hook: Hook) -> Self {
        let environment = Environment::of_hook();
        let read = Loaded::read(&environment, None).and_then(Loaded::strict);
        let (mut loaded, wrong) = match read {
            Ok(loaded) => (loaded, None),
            Err(failure) => (Loaded::read_in_part(&environment), Some(failure)),
        };
        if loaded.settings.lock.is_none() || environment.lock.is_some() {
            loaded.settings.lock.clone_from(&environment.lock);
        }
        let limit = loaded.settings.slurm.timeout;
        loaded.settings.nvml_timeout = loaded.settings.nvml_timeout.min(limit);
        for_jobs(&mut loaded.settings, hook);
        Self {
            environment,
            loaded,
            wrong,
            patience: job_part::patience(),
        }
    }

    fn lock_file(&self) -> Result<LockFile, Failure> {
        find_lock_file(&self.loaded.settings, &self.environment, Some(&DIAG))
    }

    /// Where jobs are marked: beside the lock.
    fn marks(&self) -> PathBuf {
        let lock = LockFile::find(
            self.environment.lock.clone(),
            self.loaded.settings.lock.clone(),
        );
        let directory = lock
            .ok()
            .and_then(|lock| lock.path.parent().map(PathBuf::from));
        directory.unwrap_or_else(|| "/run/getgpu".into())
    }
}

/// Takes out what is meant for calls that people type. Slurm has counted what a job has, and it is
/// the job's for as long as it runs; of tasks that start together none may wait for the others.
fn for_jobs(settings: &mut Settings, hook: Hook) {
    let built_in = Settings::default();
    settings.count = built_in.count;
    settings.count_most = built_in.count_most;
    settings.count_all = built_in.count_all;
    settings.share = built_in.share;
    settings.share_by_default = built_in.share_by_default;
    settings.wait = built_in.wait;
    settings.max_hold = None;
    if hook == Hook::Prolog {
        // `slurm.wait` is the site's own limit.
        settings.max_wait = None;
    }
    if task::granted(&variable).is_some() {
        settings.kind = built_in.kind;
        settings.profile = built_in.profile;
        settings.model = built_in.model;
        settings.min_memory = built_in.min_memory;
        settings.gpu = built_in.gpu;
    }
}

/// A variable that is set to a text, which may be empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The job's number; a failure is printed.
fn job_number(hook: &str) -> Option<String> {
    let id = variable("SLURM_JOB_ID").unwrap_or_default();
    if digits::<u64>(&id).is_some() {
        return Some(id);
    }
    tell::log(hook, &format!("SLURM_JOB_ID={id}: not a job's number"));
    None
}

/// The job's user, as slurmd tells a Prolog and an Epilog.
fn job_user() -> Option<u32> {
    variable("SLURM_JOB_UID")?.parse().ok()
}

/// The tag under which a job's part is reserved.
fn tag(job: &str) -> String {
    format!("slurm-{job}")
}
