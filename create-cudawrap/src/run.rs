//! The story: read the command line, find cudawrap, do each PATH by itself, sum up. What
//! is for people goes to standard error; standard output has only what was asked for as
//! output.

use std::path::{Path, PathBuf};

use getgpu_linux::{Identity, beside};
use getgpu_model::{
    Diag, Failure, Kind, Verbosity,
    diag::{print, printable},
    exit,
};
use getgpu_settings::{Environment, Loaded};

use crate::advice;
use crate::causes::PathCause;
use crate::directory::Directory;
use crate::dirlock;
use crate::inspect::snapshot;
use crate::job::Wrapping;
use crate::names::Names;
use crate::options::{self, CreateOptions, PROGRAM, Parsed, WrapTask};
use crate::plan::Goal;
use crate::registry::Note;
use crate::status;
use crate::target::{self, Target};
use crate::wrapper;

/// Runs with this process's arguments; gives the exit status.
pub fn main() -> i32 {
    let diag = Diag::new(PROGRAM, Verbosity::Normal);
    let result = match options::parse(std::env::args_os().skip(1)) {
        Ok(Parsed::Print(text)) => print(text).map(|()| true),
        Ok(Parsed::Run(options)) => {
            let diag = Diag::new(PROGRAM, options.level);
            check_settings(options.task, &diag).and_then(|()| {
                match options.task {
                    WrapTask::Change(goal) => change(&options, goal, &diag),
                    WrapTask::Status { json } => show(&options, json, &diag),
                }
                .or_else(|failure| Ok(fail(&diag, &failure)))
            })
        }
        Err(failure) => Err(failure),
    };
    match result {
        Ok(true) => exit::OK,
        Ok(false) => exit::create_cudawrap(Kind::Refused),
        Err(failure) => {
            diag.error(&failure);
            exit::create_cudawrap(failure.kind)
        }
    }
}

/// Nothing is set for this program yet, but a settings file that cannot be right is told
/// before anything is wrapped: then the programs would not start. To undo, or to look,
/// needs no settings: a typo must not keep the package from being removed.
fn check_settings(task: WrapTask, diag: &Diag) -> Result<(), Failure> {
    let read = Loaded::read(&Environment::of_process(), None)
        .and_then(Loaded::strict)
        .map(|_| ());
    match (task, read) {
        (WrapTask::Change(Goal::Undo) | WrapTask::Status { .. }, Err(failure)) => {
            diag.warn(&format!(
                "warning: {} (this command does not need the settings)",
                failure.message
            ));
            Ok(())
        }
        (_, read) => read,
    }
}

/// Wrap, undo or repair; whether all went well.
fn change(options: &CreateOptions, goal: Goal, diag: &Diag) -> Result<bool, Failure> {
    let wrapper = match wrapper::find(options.wrapper.as_deref()) {
        Ok(found) => Some(found),
        // Undoing needs none: that is what it is for when cudawrap is gone.
        Err(_) if goal == Goal::Undo => None,
        Err(failure) => return Err(failure),
    };
    if let Some(found) = &wrapper {
        diag.note(&format!("links lead to {}", found.text.to_string_lossy()));
    }
    if let Some(links) = &options.links {
        links.check_exists()?;
    }
    let note = Note::find();
    let mut paths = paths(options, note.as_ref())?;
    // For each program by itself, as --status shows them.
    if goal != Goal::Wrap && options.links.is_none() && options.paths.is_some() {
        paths = wrapped_in(paths, wrapper.as_ref().map(|found| found.id), diag)?;
    }
    let job = Wrapping {
        options,
        goal,
        wrapper: wrapper.as_ref(),
        note: note.as_ref(),
        diag,
    };
    let (changed, failed) = run_all(&job, &mut paths)?;
    if paths.is_empty() && options.paths.is_none() {
        diag.warn("--all: nothing is recorded as wrapped");
    }
    if paths.len() > 1 {
        let done = if options.dry_run {
            "would change"
        } else {
            "changed"
        };
        let paths = paths.len();
        diag.warn(&format!("{paths} paths: {changed} {done}, {failed} failed"));
    }
    Ok(failed == 0)
}

/// Does the job for each path; how many were changed, or would be, and how many failed.
fn run_all(job: &Wrapping<'_>, paths: &mut [PathBuf]) -> Result<(usize, usize), Failure> {
    if job.goal == Goal::Undo {
        // A link that leads to a wrapped path leads to the program once that is undone.
        paths.sort_by_cached_key(|path| job.leads_on(path));
    }
    let (mut changed, mut failed) = (0, 0);
    for (index, path) in paths.iter().enumerate() {
        if index > 0 && !job.options.dry_run {
            dirlock::give_way();
        }
        match job.run(path) {
            Ok(done) => {
                changed += usize::from(!done.steps.is_empty());
                if !job.options.dry_run || done.steps.is_empty() {
                    job.diag.warn(&format!("{}: {}", path.display(), done.text));
                    continue;
                }
                let shown = path.to_string_lossy();
                for step in &done.steps {
                    let line = format!("{}: {}\n", printable(&shown), printable(step));
                    print(line)?;
                }
            }
            Err(failure) => {
                failed += 1;
                fail(job.diag, &failure.about(path.display()));
            }
        }
    }
    Ok((changed, failed))
}

/// `--status`; whether nothing needs attention.
fn show(options: &CreateOptions, json: bool, diag: &Diag) -> Result<bool, Failure> {
    let wrapper = wrapper::locate(options.wrapper.as_deref()).ok();
    let own = wrapper.as_ref().map(|found| found.id);
    let note = Note::find();
    let noted = options.paths.is_none();
    let mut lines: Vec<status::StatusLine> = wrapper
        .and_then(|found| status::wrapper_line(Path::new(&found.text)))
        .into_iter()
        .collect();
    let mut good = true;
    for path in wrapped_in(paths(options, note.as_ref())?, own, diag)? {
        let line = look_at(&path, own);
        let is_gone = matches!(line, Ok(None)) || target::is_gone(&path);
        match line.and_then(|line| line.ok_or(PathCause::NoSuchFile.into())) {
            Ok(line) => lines.push(line),
            Err(_) if noted && is_gone => {
                diag.note(&format!("{}: no longer exists", path.display()));
            }
            Err(failure) => good = fail(diag, &failure.about(path.display())),
        }
    }
    print(if json {
        status::json(&lines)
    } else {
        status::text(&lines)
    })?;
    Ok(good && !lines.iter().any(|line| line.attention))
}

/// The paths, with those of the wrapped programs in the place of each directory.
fn wrapped_in(
    paths: Vec<PathBuf>,
    own: Option<Identity>,
    diag: &Diag,
) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if !holds_programs(&path) {
            all.push(path);
            continue;
        }
        let names = Directory::open(&path)
            .and_then(|dir| status::names_in(&dir, own))
            .map_err(|error| Failure::from(PathCause::from(error)).about(path.display()))?;
        if names.is_empty() {
            diag.warn(&format!("{}: nothing is wrapped there", path.display()));
        }
        all.extend(names.into_iter().map(|name| path.join(name)));
    }
    Ok(all)
}

/// Whether the path stands for the programs in it: a directory, but for one in the place of
/// a wrapped program.
fn holds_programs(path: &Path) -> bool {
    path.is_dir() && beside(path).is_none_or(|program| program.symlink_metadata().is_err())
}

/// The line for a path; none if nothing is there.
fn look_at(path: &Path, own: Option<Identity>) -> Result<Option<status::StatusLine>, Failure> {
    let target = Target::parse(path)?;
    let seen =
        Directory::open(&target.dir).and_then(|dir| snapshot(&dir, &Names::of(&target.name), own));
    let seen = seen.map_err(PathCause::from)?;
    Ok(status::line(path, &seen).map(|line| match line.state {
        "wrapped" => line.with(advice::set_for(&target.name)),
        _ => line,
    }))
}

fn paths(options: &CreateOptions, note: Option<&Note>) -> Result<Vec<PathBuf>, Failure> {
    match (&options.paths, note) {
        (Some(paths), _) => Ok(paths.clone()),
        (None, None) => Ok(Vec::new()),
        (None, Some(note)) => {
            let file = note.path().display();
            note.read()
                .map_err(|error| Failure::from(PathCause::from(error)).about(file))
        }
    }
}

fn fail(diag: &Diag, failure: &Failure) -> bool {
    diag.error(failure);
    false
}
