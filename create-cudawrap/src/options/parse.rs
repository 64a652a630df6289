//! What was typed, read by the table and checked: what excludes what.
//! Errors of use come out as one line in our own form, as every other message does.

use std::ffi::OsString;

use clap::FromArgMatches;
use getgpu_cli::{HelpLength, flags};
use getgpu_model::Failure;

use super::table::{CreateArguments, Doing, GUIDE, PROGRAM, command};
use super::{CreateOptions, Parsed, WrapTask};
use crate::causes::{Contradiction, CreateCause};
use crate::linkdir::LinkDirectory;
use crate::plan::Goal;

/// Reads the command line (without the program's name).
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let args = std::iter::once(OsString::from(PROGRAM)).chain(args);
    let typed = command().try_get_matches_from(args);
    let typed = typed.and_then(|matches| CreateArguments::from_arg_matches(&matches));
    let typed = typed.map_err(|error| flags::usage_failure(PROGRAM, &error))?;
    if typed.common.help {
        return Ok(Parsed::Print(GUIDE.text(command(), HelpLength::Full)));
    }
    if typed.common.version {
        let version = env!("CARGO_PKG_VERSION");
        return Ok(Parsed::Print(format!("{PROGRAM} {version}\n")));
    }
    checked(typed).map(Parsed::Run)
}

fn checked(typed: CreateArguments) -> Result<CreateOptions, Failure> {
    let task = task(&typed.doing);
    let status = matches!(task, WrapTask::Status { .. });
    let all = typed.doing.all || (status && typed.paths.is_empty());
    if let Some(what) = contradiction(&typed, task, all) {
        return Err(CreateCause::Contradiction { what }.into());
    }
    Ok(CreateOptions {
        task,
        paths: (!all).then_some(typed.paths),
        links: typed.how.link_dir.map(LinkDirectory),
        dry_run: typed.how.dry_run,
        force: typed.how.force,
        wrapper: typed.how.wrapper,
        level: typed.common.level(),
    })
}

fn task(typed: &Doing) -> WrapTask {
    match (typed.undo, typed.repair, typed.status) {
        (true, ..) => WrapTask::Change(Goal::Undo),
        (_, true, _) => WrapTask::Change(Goal::Repair),
        (_, _, true) => WrapTask::Status { json: typed.json },
        (false, false, false) => WrapTask::Change(Goal::Wrap),
    }
}

/// What does not go together. `all`: the noted paths are meant.
fn contradiction(typed: &CreateArguments, task: WrapTask, all: bool) -> Option<Contradiction> {
    let CreateArguments {
        doing, how, common, ..
    } = typed;
    let status = matches!(task, WrapTask::Status { .. });
    let wrap = task == WrapTask::Change(Goal::Wrap);
    let no_path = typed.paths.is_empty();
    let tasks = [doing.undo, doing.repair, doing.status];
    #[rustfmt::skip]
    let wrong = [
        (tasks.into_iter().filter(|is| *is).count() > 1, Contradiction::ManyTasks),
        (doing.json && !status, Contradiction::JsonAlone),
        (doing.all && wrap, Contradiction::AllToWrap),
        (doing.all && !no_path, Contradiction::AllAndPath),
        (!all && no_path, Contradiction::NoPathGiven),
        (how.link_dir.is_some() && (all || status), Contradiction::LinkDirAlone),
        (how.dry_run && status, Contradiction::StatusDryRun),
        (common.verbose && common.quiet, Contradiction::VerboseQuiet),
    ];
    wrong.iter().find(|(is, _)| *is).map(|(_, what)| *what)
}
