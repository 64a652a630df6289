//! getgpu's story: what was typed, and then what it asks for. What went wrong ends in one
//! line and a documented status.

use std::ffi::OsString;
use std::io::IsTerminal;

use getgpu_lock::{LockFile, Role};
use getgpu_model::{Diag, Failure, Kind, Verbosity, diag::show, exit};
use getgpu_nvml::serve::serve;
use getgpu_nvml::spawn;
use getgpu_settings::{Environment, Loaded};

use getgpu_core::options::{self, Action, Format, GetgpuOptions};
use getgpu_core::{carry_out, list, put_options, show_config, wanted};
use getgpu_operate::{check, monitor, prometheus, report, slurm};

/// Runs with the arguments that were typed, for a reservation of this role; gives the exit
/// status.
pub fn main(arguments: &[OsString], role: Role) -> i32 {
    let level = Verbosity::of_words(arguments);
    let options = match options::parse(arguments.iter().cloned()) {
        Ok(options) => GetgpuOptions { role, ..options },
        Err(failure) => return fail(&Diag::new("getgpu", level), &failure),
    };
    let diag = Diag::new("getgpu", options.level);
    let environment = Environment::of_process();
    let mut status = exit::OK;
    let is_json = options.format == Format::Json;
    let done = match &options.action {
        Action::Slurm(hook) => return slurm::run(*hook),
        Action::Wanted => wanted::run(&options, &environment).map(|told| status = told),
        Action::Text(text) => show(text),
        Action::Check {
            directories,
            health,
        } => {
            let report = match options.level {
                _ if is_json => check::Report::Json,
                Verbosity::Quiet => check::Report::Problems,
                _ => check::Report::All,
            };
            if *health {
                check::health(&environment, report)
            } else {
                check::check(&environment, directories, report)
            }
        }
        Action::Report { by, since } => report::run(*by, since.as_deref(), is_json),
        Action::ListFrom(files) => list::hosts::show(files, &options),
        Action::ShowConfig => show_settings(&options, &environment, &diag),
        Action::Monitor(metrics) => monitor::run(&environment, metrics.as_deref(), &diag),
        _ => match Loaded::read(&environment, None) {
            Ok(loaded) => carry_out(&options, loaded, &environment, &diag, prometheus::text),
            Err(failure) => Err(failure),
        },
    };
    match done {
        Ok(()) => status,
        Err(mut failure) => {
            if failure.kind == Kind::NoDriver && environment.allocation_shell {
                failure = failure
                    .advised("you are in an allocation but not on its node: srun --pty bash");
            }
            fail(&diag, &failure)
        }
    }
}

fn fail(diag: &Diag, failure: &Failure) -> i32 {
    diag.error(failure);
    exit::getgpu(failure.kind)
}

/// The process that asks NVML for cudawrap: the connection is descriptor 0.
pub fn worker() -> i32 {
    let Ok(channel) = nix::fcntl::fcntl(std::io::stdin(), nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3))
    else {
        return 1;
    };
    let channel = getgpu_linux::sys::own_fd(channel);
    spawn::seclude();
    serve(&std::fs::File::from(channel));
    // Every answer is given. What the library does when a process ends may crash, and
    // must not change the status.
    getgpu_linux::sys::end(0)
}

/// Says what the settings are, and where each comes from.
fn show_settings(
    options: &GetgpuOptions,
    environment: &Environment,
    diag: &Diag,
) -> Result<(), Failure> {
    let mut loaded = Loaded::read(environment, None)?;
    put_options(options, environment, &mut loaded)?;
    // It is what the message about an unknown setting sends people to.
    for unknown in std::mem::take(&mut loaded.unknown) {
        diag.warn(&unknown.message);
    }
    let lock = LockFile::find(environment.lock.clone(), loaded.settings.lock.clone());
    let lock = match lock {
        Ok(lock) => lock.path.display().to_string(),
        Err(failure) => failure.message,
    };
    let people = options.level == Verbosity::Verbose || std::io::stdout().is_terminal();
    let head = show_config::head(environment, &lock);
    let head = if people { head.as_str() } else { "" };
    show(&format!("{head}{}", show_config::text(&loaded)))
}
