//! What was typed, read by the table and checked: what excludes what.
//! Errors of use come out as one line in our own form, as every other message does.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::flags;
use getgpu_common::help_text::Asked;

use super::table::{GUIDE, PROGRAM, command};
use super::{Options, Parsed, Task};
use crate::plan::Goal;

/// Reads the command line (without the program's name).
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let args = std::iter::once(OsString::from(PROGRAM)).chain(args);
    let typed = command()
        .try_get_matches_from(args)
        .map_err(|error| flags::usage_failure(PROGRAM, &error))?;
    if typed.get_flag("help") {
        return Ok(Parsed::Print(GUIDE.text(command(), Asked::Full)));
    }
    if typed.get_flag("version") {
        return Ok(Parsed::Print(format!(
            "{PROGRAM} {}\n",
            env!("CARGO_PKG_VERSION")
        )));
    }
    checked(&typed).map(Parsed::Run)
}

fn checked(matches: &ArgMatches) -> Result<Options, Failure> {
    let on = |name: &str| matches.get_flag(name);
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let task = task(matches)?;
    let paths: Vec<PathBuf> = matches
        .get_many("paths")
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let status = matches!(task, Task::Status { .. });
    let all = on("all") || (status && paths.is_empty());
    if let Some(why) = contradiction(matches, task, all, &paths) {
        return Err(usage(why));
    }
    Ok(Options {
        task,
        paths: (!all).then_some(paths),
        link_dir: path("link-dir"),
        dry_run: on("dry-run"),
        force: on("force"),
        wrapper: path("wrapper"),
        level: flags::level(matches),
    })
}

fn task(matches: &ArgMatches) -> Result<Task, Failure> {
    let on = |name: &str| matches.get_flag(name);
    match (on("undo"), on("repair"), on("status")) {
        (false, false, false) => Ok(Task::Change(Goal::Wrap)),
        (true, false, false) => Ok(Task::Change(Goal::Undo)),
        (false, true, false) => Ok(Task::Change(Goal::Repair)),
        (false, false, true) => Ok(Task::Status { json: on("json") }),
        _ => Err(usage(
            "only one of --undo, --repair and --status can be given",
        )),
    }
}

/// What does not go together. `all`: the noted paths are meant.
fn contradiction(
    matches: &ArgMatches,
    task: Task,
    all: bool,
    paths: &[PathBuf],
) -> Option<&'static str> {
    let on = |name: &str| matches.get_flag(name);
    let status = matches!(task, Task::Status { .. });
    let wrap = task == Task::Change(Goal::Wrap);
    let link_dir = matches.contains_id("link-dir");
    let wrong = [
        (on("json") && !status, "--json goes with --status"),
        (
            on("all") && wrap,
            "--all goes with --undo, --repair or --status",
        ),
        (
            on("all") && !paths.is_empty(),
            "--all stands for the noted paths: give either it or PATH",
        ),
        (!all && paths.is_empty(), "no PATH given"),
        (
            link_dir && (all || status),
            "--link-dir needs PATH, and --status takes the directory as PATH",
        ),
        (
            on("dry-run") && status,
            "--status changes nothing: it takes no --dry-run",
        ),
        (
            on("verbose") && on("quiet"),
            "--verbose and --quiet exclude each other",
        ),
    ];
    wrong.iter().find(|(is, _)| *is).map(|(_, why)| *why)
}

fn usage(why: &str) -> Failure {
    Failure::new(Kind::Usage, why).hint("create-cudawrap --help shows the options")
}
