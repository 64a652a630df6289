//! The command line: one table from which parser, help, manual and completions are made, and the checked result.
//! Errors of use come out as one line in our own form, as every other message does.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use getgpu_common::diag::Level;
use getgpu_common::error::{Failure, Kind};

use crate::plan::Goal;

/// The program's name in every message, whatever it was called by.
pub const PROGRAM: &str = "create-cudawrap";

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Without the dashes.
    pub long: &'static str,
    /// One letter.
    pub short: Option<char>,
    /// The name of its value.
    pub value: Option<&'static str>,
    /// A sentence without a full stop.
    pub help: &'static str,
}

const fn flag(long: &'static str, short: Option<char>, value: Option<&'static str>, help: &'static str) -> Flag {
    Flag { long, short, value, help }
}

/// All options, in the order of the help.
pub const FLAGS: &[Flag] = &[
    flag("undo", None, None, "Put the program back under its name, the same file that it was"),
    flag(
        "repair",
        None,
        None,
        "Wrap the new program after an upgrade replaced the link; renew links to a cudawrap that is gone",
    ),
    flag(
        "status",
        None,
        None,
        "Show a line for each PATH, or for each wrapped program in it if it is a directory; status 1 if one needs attention",
    ),
    flag("json", None, None, "With --status: print JSON"),
    flag("all", None, None, "With --undo, --repair, --status: every path noted when it was wrapped"),
    flag(
        "link-dir",
        None,
        Some("DIR"),
        "Leave the program alone and put a link of its name into DIR, which comes before it in PATH",
    ),
    flag("divert", None, None, "On Debian: let dpkg write CUDAWRAP_name from now on, so that upgrades keep the link"),
    flag("dry-run", Some('n'), None, "Print what would be done"),
    flag(
        "force",
        None,
        None,
        "Wrap also a package's file, one under an AppArmor profile, one on a network file system without cudawrap",
    ),
    flag("wrapper", None, Some("PATH"), "Make links to this cudawrap"),
    flag("verbose", Some('v'), None, "Say more"),
    flag("quiet", Some('q'), None, "Say errors only"),
    flag("version", Some('V'), None, "Print the version"),
    flag("help", Some('h'), None, "Print this help"),
];

const ABOUT: &str = "Make programs start through cudawrap, which gives each of them a free MIG device";
const EXAMPLES: &str = "Examples:
  create-cudawrap /opt/amber/bin/pmemd.cuda          the program becomes CUDAWRAP_pmemd.cuda
  create-cudawrap --undo /opt/amber/bin/pmemd.cuda   as it was
  create-cudawrap --status /opt/amber/bin            what is wrapped there
  create-cudawrap --repair --all                     after an upgrade

Exit status: 0 done, 1 refused or failed (of one PATH at least) or attention needed, 2 wrong use.";

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Change something.
    Change(Goal),
    /// Show only.
    Status {
        /// As JSON.
        json: bool,
    },
}

/// The checked command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to do.
    pub task: Task,
    /// With which paths; none: all that are noted.
    pub paths: Option<Vec<PathBuf>>,
    /// `--link-dir`.
    pub link_dir: Option<PathBuf>,
    /// `--divert`.
    pub divert: bool,
    /// `--dry-run`.
    pub dry_run: bool,
    /// `--force`.
    pub force: bool,
    /// `--wrapper`.
    pub wrapper: Option<PathBuf>,
    /// How much is said.
    pub level: Level,
}

/// What a command line asks for.
#[derive(Clone, Debug)]
pub enum Parsed {
    /// Work.
    Run(Options),
    /// Help or version: this text on standard output.
    Print(String),
}

/// The parser, made from [`FLAGS`].
pub fn command() -> Command {
    let args = FLAGS.iter().map(|flag| {
        let action = match (flag.long, flag.value) {
            ("help", _) => ArgAction::Help,
            ("version", _) => ArgAction::Version,
            (_, Some(_)) => ArgAction::Set,
            (_, None) => ArgAction::SetTrue,
        };
        let arg = Arg::new(flag.long).long(flag.long).help(flag.help).action(action).short(flag.short);
        match flag.value {
            Some(name) => arg.value_name(name).value_parser(value_parser!(PathBuf)),
            None => arg.overrides_with(flag.long),
        }
    });
    let paths = Arg::new("paths").value_name("PATH").num_args(0..).value_parser(value_parser!(PathBuf));
    Command::new(PROGRAM)
        .about(ABOUT)
        .after_help(EXAMPLES)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .override_usage("create-cudawrap [OPTIONS] PATH...")
        .args(args)
        .arg(paths.help("The programs to wrap; a symbolic link is the link, not what it leads to"))
}

/// Reads the command line (without the program's name).
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let args = std::iter::once(OsString::from(PROGRAM)).chain(args);
    match command().try_get_matches_from(args) {
        Ok(matches) => checked(&matches).map(Parsed::Run),
        Err(error) if !error.use_stderr() => Ok(Parsed::Print(error.to_string())),
        Err(error) => {
            // Of clap's answer the first line says what is wrong.
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Err(usage(line.strip_prefix("error: ").unwrap_or(line)))
        }
    }
}

fn checked(matches: &ArgMatches) -> Result<Options, Failure> {
    let on = |name: &str| matches.get_flag(name);
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let task = match (on("undo"), on("repair"), on("status")) {
        (false, false, false) => Task::Change(Goal::Wrap),
        (true, false, false) => Task::Change(Goal::Undo),
        (false, true, false) => Task::Change(Goal::Repair),
        (false, false, true) => Task::Status { json: on("json") },
        _ => return Err(usage("only one of --undo, --repair and --status can be given")),
    };
    let status = matches!(task, Task::Status { .. });
    let wrap = task == Task::Change(Goal::Wrap);
    let paths: Vec<PathBuf> = matches.get_many("paths").into_iter().flatten().cloned().collect();
    let all = on("all") || (status && paths.is_empty());
    let wrong = [
        (on("json") && !status, "--json goes with --status"),
        (on("all") && wrap, "--all goes with --undo, --repair or --status"),
        (on("all") && !paths.is_empty(), "--all stands for the noted paths: give either it or PATH"),
        (!all && paths.is_empty(), "no PATH given"),
        (on("divert") && !wrap, "--divert goes with wrapping; --undo ends a diversion by itself"),
        (on("divert") && path("link-dir").is_some(), "--divert and --link-dir exclude each other"),
        (
            path("link-dir").is_some() && (all || status),
            "--link-dir needs PATH, and --status takes the directory as PATH",
        ),
        (on("dry-run") && status, "--status changes nothing: it takes no --dry-run"),
        (on("verbose") && on("quiet"), "--verbose and --quiet exclude each other"),
    ];
    if let Some((_, why)) = wrong.iter().find(|(is, _)| *is) {
        return Err(usage(why));
    }
    let level = match (on("quiet"), on("verbose")) {
        (true, _) => Level::Quiet,
        (_, true) => Level::Verbose,
        _ => Level::Normal,
    };
    Ok(Options {
        task,
        paths: (!all).then_some(paths),
        link_dir: path("link-dir"),
        divert: on("divert"),
        dry_run: on("dry-run"),
        force: on("force"),
        wrapper: path("wrapper"),
        level,
    })
}

fn usage(why: &str) -> Failure {
    Failure::new(Kind::Usage, why).hint("create-cudawrap --help shows the options")
}
