//! The TaskProlog: gives each task a device of its own, from before it starts until it
//! exits. Slurm obeys the lines `export NAME=VALUE` that this prints. A task that should
//! have a device and can be given none sees no GPU at all, and its user is told why.

use getgpu_lock::Role;
use getgpu_model::{Failure, Kind, diag::print, exit};
use getgpu_settings::{Environment, SlurmTasks};

use super::task::{self, Division};
use super::tell::{self, Who};
use super::wish::Wish;
use super::{Context, job_number, mark, part, tag, task_epilog, task_process, variable};
use crate::causes::SlurmCause;
use getgpu_core::options::Format;

/// What hides all GPUs.
const HIDE: &str = "export CUDA_VISIBLE_DEVICES=\n";

/// Runs it; none: the status is 0.
pub fn run(context: &Context) -> Option<i32> {
    if task_epilog::is_called() {
        task_epilog::run();
        return None;
    }
    let job = job_number("task-prolog")?;
    let jobs = task::jobs(&variable, &job);
    let shares = &context.loaded.settings.slurm.shares;
    let task = SlurmTask {
        context,
        pid: task_process::find(),
        granted: task::granted(&variable),
        promised: task::promised(&variable, shares.iter().map(|share| share.name.as_str())),
        marked: jobs
            .iter()
            .find_map(|job| Some((job.clone(), mark::reason(&context.marks(), job)?))),
        jobs,
    };
    match task.serve() {
        Ok(()) => None,
        Err(denied) => task.deny(&denied),
    }
}

/// A task that should have a device and gets none.
pub struct Denied {
    who: Who,
    failure: Failure,
}

impl Denied {
    pub fn new(who: Who, failure: Failure) -> Self {
        Self { who, failure }
    }
}

impl From<Failure> for Denied {
    /// All tasks of the job have it in common.
    fn from(failure: Failure) -> Self {
        Self::new(Who::First, failure)
    }
}

/// One task, and what is known of it.
pub struct SlurmTask<'a> {
    pub context: &'a Context,
    /// The process that becomes the task.
    pub pid: i32,
    /// How many devices are granted; 0: unknown.
    granted: Option<usize>,
    /// What job_submit.lua has promised to the job.
    promised: Option<String>,
    /// The job that got no part, and why.
    marked: Option<(String, &'static str)>,
    /// The job's numbers.
    jobs: Vec<String>,
}

impl SlurmTask<'_> {
    fn serve(&self) -> Result<(), Denied> {
        // The part of the job comes before all else.
        if self.use_part()? {
            return Ok(());
        }
        let settings = &self.context.loaded.settings.slurm;
        let wish = Wish::read(settings, self.granted.is_some())?;
        let is_unasked = matches!(wish, Wish::Nothing | Wish::Nobody);
        if is_unasked || task::only_starts_tasks(&variable) {
            return self.leave_alone(&wish);
        }
        let options = wish.options();
        let amount_is_typed =
            part::says_how_much(options).map_err(|failure| of_job(failure, options))?;
        // The job's options choose within the division, unless they say how much it is.
        let granted = self.granted.filter(|_| !amount_is_typed);
        let division = granted.map(|devices| task::division(&variable, devices));
        match division {
            Some(Division::All) if settings.tasks != SlurmTasks::All => self.keep(options),
            division => self.give(&wish, division),
        }
    }

    /// Prints what the prolog has reserved for the job, or refuses what was promised in
    /// vain; whether there was anything to print.
    fn use_part(&self) -> Result<bool, Denied> {
        if let Some((job, why)) = &self.marked {
            return Err(Failure::from(SlurmCause::PartMarked { job, why }).into());
        }
        let none_given = self.context.loaded.settings.slurm.shares.is_empty();
        if !none_given || self.promised.is_some() {
            for job in &self.jobs {
                match part::print_reserved(self.context, &tag(job)) {
                    Ok(true) => return Ok(true),
                    Err(failure) if self.promised.is_some() => return Err(failure.into()),
                    Ok(false) | Err(_) => {}
                }
            }
        }
        match &self.promised {
            Some(part) => {
                let job = &self.jobs[0];
                let cause = match variable("SLURM_RESTART_COUNT") {
                    Some(_) => SlurmCause::PartNotReservedAgain { job, part },
                    None => SlurmCause::PartNotReserved { job, part },
                };
                Err(Failure::from(cause).into())
            }
            None => Ok(false),
        }
    }

    /// Nothing is given to the task; where a job without a grant may use no device, it sees none.
    fn leave_alone(&self, wish: &Wish) -> Result<(), Denied> {
        let settings = &self.context.loaded.settings;
        let has_grant = self.granted.is_some() || self.context.environment.batch_gpus.is_some();
        if !has_grant && settings.hides_ungranted() {
            return show(HIDE);
        }
        if *wish == Wish::Nothing {
            return Ok(());
        }
        // Neither a grant nor another library is in the way.
        let may_load = self.granted.is_none() && variable("CUDA_INJECTION64_PATH").is_none();
        match getgpu_auto::library_for_tasks(settings).filter(|_| may_load) {
            Some(library) => show(&format!(
                "export CUDA_INJECTION64_PATH={}\n",
                library.display()
            )),
            None => Ok(()),
        }
    }

    /// Reserves a device, or a part of one, and prints it.
    fn give(&self, wish: &Wish, division: Option<Division>) -> Result<(), Denied> {
        let options = wish.options();
        let mut own = vec![format!("--hold={}", self.pid)];
        if let Some(Division::Part(many)) = division {
            own.push(format!("--share=1/{many}"));
        }
        let environment = &self.context.environment;
        let Err(failure) = self.reserve(environment, options, &own, Format::Task) else {
            return Ok(());
        };
        let no_gpu_here = exit::getgpu(failure.kind) == exit::getgpu(Kind::NoDriver);
        if *wish == Wish::Site && self.granted.is_none() && no_gpu_here && !self.strict() {
            // A node without GPUs is nothing to tell about.
            return show(HIDE);
        }
        let who = match failure.kind {
            // Each task has a cgroup of its own.
            Kind::NoneFree | Kind::NoDevice | Kind::NoUsableGpu => Who::Each,
            _ => Who::First,
        };
        Err(Denied::new(who, of_job(failure, options)))
    }

    /// Reserves devices for the task, by the job's options and the hook's `own`.
    pub fn reserve(
        &self,
        environment: &Environment,
        options: &[String],
        own: &[String],
        format: Format,
    ) -> Result<(), Failure> {
        if let Some(wrong) = &self.context.wrong {
            return Err(wrong.clone());
        }
        let mut options = part::choosing(options, own)?;
        options.role = Role::Task;
        part::reserve(self.context, environment, options, format)
    }

    pub fn strict(&self) -> bool {
        self.context.loaded.settings.slurm.strict
    }

    /// Tells the user, and hides all GPUs; a strict site does not start the task.
    fn deny(&self, denied: &Denied) -> Option<i32> {
        let why = &denied.failure.message;
        if self.strict() {
            tell::user(self.pid, denied.who, &format!("not started: {why}"));
            return Some(exit::getgpu(denied.failure.kind));
        }
        let _ = print(HIDE);
        let text = format!("started without a GPU, CUDA_VISIBLE_DEVICES is empty: {why}");
        tell::user(self.pid, denied.who, &text);
        None
    }
}

/// A failure of the words in GETGPU_SLURM says so.
fn of_job(failure: Failure, options: &[String]) -> Failure {
    if failure.kind != Kind::Usage || options.is_empty() {
        return failure;
    }
    failure.about(format_args!("GETGPU_SLURM={}", options.join(" ")))
}

/// Prints lines for slurmstepd, if there are any.
pub fn show(lines: &str) -> Result<(), Denied> {
    if lines.is_empty() {
        return Ok(());
    }
    Ok(print(lines)?)
}
