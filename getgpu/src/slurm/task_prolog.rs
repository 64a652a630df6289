//! The TaskProlog: gives each task a device of its own, from before it starts until it
//! exits. Slurm obeys the lines `export NAME=VALUE` that this prints. A task that should
//! have a device and can be given none sees no GPU at all, and its user is told why.

use std::path::Path;

use getgpu_common::diag::print;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::settings::{SlurmTaken, SlurmTasks};
use getgpu_common::{exit, hook};

use super::task::{self, Division};
use super::tell::{self, Who};
use super::{Context, job_number, mark, part, tag, task_process, variable};

/// What hides all GPUs.
const HIDE: &str = "export CUDA_VISIBLE_DEVICES=\n";

/// Runs it; none: the status is 0.
pub fn run(context: &Context) -> Option<i32> {
    let job = job_number("task-prolog")?;
    let jobs = task::jobs(&variable, &job);
    let task = Task {
        context,
        pid: task_process::find(),
        granted: task::granted(&variable),
        promised: variable("GETGPU_SLURM_PART").filter(|part| !part.is_empty()),
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
struct Denied {
    who: Who,
    failure: Failure,
}

impl Denied {
    fn new(who: Who, failure: Failure) -> Self {
        Self { who, failure }
    }

    fn because(kind: Kind, why: String) -> Self {
        Self::new(Who::First, Failure::new(kind, why))
    }
}

/// Who wants the task to have a device.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    Nobody,
    Site,
    /// The job, with these options.
    Job(Vec<String>),
}

/// One task, and what is known of it.
struct Task<'a> {
    context: &'a Context,
    /// The process that becomes the task.
    pid: i32,
    /// How many devices are granted; 0: unknown.
    granted: Option<usize>,
    /// What job_submit.lua has promised to the job.
    promised: Option<String>,
    /// The job that got no part, and why.
    marked: Option<(String, &'static str)>,
    /// The job's numbers.
    jobs: Vec<String>,
}

impl Task<'_> {
    fn serve(&self) -> Result<(), Denied> {
        // The part of the job comes before all else.
        if self.use_part()? {
            return Ok(());
        }
        let wish = self.wish()?;
        if wish == Wish::Nobody || task::only_starts_tasks(&variable) {
            return self.leave_alone();
        }
        let division = self
            .granted
            .map(|devices| task::division(&variable, devices));
        let all = self.context.loaded.settings.slurm.tasks == SlurmTasks::All;
        let keeps = wish == Wish::Site && !all;
        match division {
            Some(Division::Several) if keeps => Ok(()),
            Some(Division::Only) if keeps => self.keep(),
            division => self.give(wish, division),
        }
    }

    /// Prints what the prolog has reserved for the job, or refuses what was promised in
    /// vain; whether there was anything to print.
    fn use_part(&self) -> Result<bool, Denied> {
        if let Some((job, why)) = &self.marked {
            let why = format!("job {job} asked for a part of a GPU: {why}");
            return Err(Denied::because(Kind::NoneFree, why));
        }
        let none_given = self.context.loaded.settings.slurm.shares.is_empty();
        if !none_given || self.promised.is_some() {
            for job in &self.jobs {
                match part::print_reserved(self.context, &tag(job)) {
                    Ok(true) => return Ok(true),
                    Err(failure) if self.promised.is_some() => {
                        return Err(Denied::new(Who::First, failure));
                    }
                    Ok(false) | Err(_) => {}
                }
            }
        }
        match &self.promised {
            Some(part) => {
                let why = format!(
                    "job {}: {part} was promised, and no prolog has reserved it on this node",
                    self.jobs[0]
                );
                Err(Denied::because(Kind::NoneFree, why))
            }
            None => Ok(false),
        }
    }

    fn wish(&self) -> Result<Wish, Denied> {
        let settings = &self.context.loaded.settings.slurm;
        let granted = self.granted.is_some();
        let asked = variable("GETGPU_SLURM").unwrap_or_default();
        let by_site = match settings.tasks {
            SlurmTasks::Auto => granted,
            SlurmTasks::Ungranted => !granted,
            SlurmTasks::Both | SlurmTasks::All => true,
            SlurmTasks::Asked => false,
        };
        match asked.trim().to_ascii_lowercase().as_str() {
            "no" => Ok(Wish::Nobody),
            "yes" => Ok(Wish::Job(Vec::new())),
            "" => Ok(if by_site { Wish::Site } else { Wish::Nobody }),
            _ if !settings.job_options => Err(Denied::because(
                Kind::Usage,
                format!("GETGPU_SLURM={asked}: only yes and no are allowed here (job_options)"),
            )),
            _ => Ok(Wish::Job(
                asked.split_whitespace().map(str::to_owned).collect(),
            )),
        }
    }

    /// Nothing is given to the task.
    fn leave_alone(&self) -> Result<(), Denied> {
        let library = std::env::current_exe()
            .ok()
            .and_then(|executable| hook::library(&executable));
        match library {
            Some(library) if self.loads_library() => show(&injection(&library)),
            _ => Ok(()),
        }
    }

    fn loads_library(&self) -> bool {
        let free = self.granted.is_none() && variable("CUDA_INJECTION64_PATH").is_none();
        self.context.loaded.settings.slurm.auto && free
    }

    /// Reserves the only device of the grant, so that getgpu gives it to no other; the
    /// variable stays as Slurm has set it, unless somebody else has the device.
    fn keep(&self) -> Result<(), Denied> {
        let Err(failure) = self.reserve(&[], true) else {
            return Ok(());
        };
        let hides = self.context.loaded.settings.slurm.taken == SlurmTaken::Hide;
        if self.strict() || (failure.kind == Kind::NoneFree && hides) {
            return Err(Denied::new(Who::First, failure));
        }
        let visible = variable("CUDA_VISIBLE_DEVICES").unwrap_or_else(|| "unset".into());
        let why = failure.message;
        let text = format!("not reserved, CUDA_VISIBLE_DEVICES stays {visible}: {why}");
        tell::user(self.pid, Who::First, &text);
        Ok(())
    }

    /// Reserves a device, or a part of one, and prints it.
    fn give(&self, wish: Wish, division: Option<Division>) -> Result<(), Denied> {
        let by_site = wish == Wish::Site;
        let options = match (wish, division) {
            (Wish::Job(options), _) if !options.is_empty() => options,
            (_, Some(Division::Part(many))) => vec!["--share".into(), format!("1/{many}")],
            _ => Vec::new(),
        };
        let Err(mut failure) = self.reserve(&options, false) else {
            return Ok(());
        };
        let no_gpu_here = exit::getgpu(failure.kind) == exit::getgpu(Kind::NoDriver);
        if by_site && self.granted.is_none() && no_gpu_here && !self.strict() {
            // A node without GPUs is nothing to tell about.
            return show(HIDE);
        }
        if failure.kind == Kind::Usage && !options.is_empty() {
            let options = options.join(" ");
            failure.message = format!("GETGPU_SLURM={options}: {}", failure.message);
        }
        let who = match failure.kind {
            Kind::NoneFree => Who::Each,
            _ => Who::First,
        };
        Err(Denied::new(who, failure))
    }

    fn reserve(&self, options: &[String], silent: bool) -> Result<(), Failure> {
        if let Some(wrong) = &self.context.wrong {
            return Err(wrong.clone());
        }
        let options = part::choosing(options, &[format!("--hold={}", self.pid)])?;
        part::reserve(self.context, &self.context.environment, options, silent)
    }

    fn strict(&self) -> bool {
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

fn injection(library: &Path) -> String {
    format!("export CUDA_INJECTION64_PATH={}\n", library.display())
}

fn show(lines: &str) -> Result<(), Denied> {
    print(lines).map_err(|failure| Denied::new(Who::First, failure))
}
