//! The form of a flag table: what each program's options are called and what they are for, once.
//! The parser, --help, and later man pages and completions are all made from such a table.

use clap::{Arg, ArgAction, Command};

use crate::error::{Failure, Kind};

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value.
    Nothing,
    /// A value, named so in the help.
    Value(&'static str),
    /// A value only in the form `--name=VALUE`, else none.
    Optional(&'static str),
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Long name, without dashes; also the key under which the parser keeps it.
    pub long: &'static str,
    /// Letters that stand for it; the first is shown.
    pub short: &'static [char],
    /// Its value.
    pub takes: Takes,
    /// Heading in the help.
    pub heading: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
}

/// A parser for `flags`, without positional arguments. --help and --version are flags of the table like any other.
pub fn command(name: &'static str, about: &'static str, flags: &[Flag]) -> Command {
    let base = Command::new(name).about(about).disable_help_flag(true).disable_version_flag(true).max_term_width(100);
    flags.iter().enumerate().fold(base, |command, (place, flag)| command.arg(argument(flag).display_order(place)))
}

fn argument(flag: &Flag) -> Arg {
    let arg = Arg::new(flag.long).long(flag.long).help(flag.help).help_heading(flag.heading);
    let arg = match flag.short {
        [] => arg,
        [first, rest @ ..] => arg.short(*first).visible_short_aliases(rest.to_vec()),
    };
    match flag.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue).overrides_with(flag.long),
        Takes::Value(name) => arg.action(ArgAction::Set).value_name(name).allow_hyphen_values(true),
        Takes::Optional(name) => {
            arg.action(ArgAction::Set).value_name(name).num_args(0..=1).require_equals(true).default_missing_value("")
        }
    }
}

/// clap's complaint as one line of ours.
pub fn usage_failure(program: &str, error: &clap::Error) -> Failure {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or("").trim_start_matches("error: ").trim_end_matches(':').to_owned();
    let missing: Vec<&str> = text.lines().skip(1).take_while(|l| l.starts_with("  ")).map(str::trim).collect();
    let line = if missing.is_empty() { line } else { format!("{line}: {}", missing.join(" ")) };
    Failure::new(Kind::Usage, line).hint(format!("{program} --help"))
}
