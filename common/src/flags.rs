//! The form of a flag table: what each program's options are called and what they are
//! for, once. The parser, --help, man pages and completions are all made from such a
//! table.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use crate::diag::Level;
use crate::error::{Failure, Kind};

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value.
    Nothing,
    /// A value, named so in the help.
    Value(&'static str),
    /// A value that may be given several times.
    Many(&'static str),
    /// A value only in the form `--name=VALUE`, else none; its letter always takes one.
    Optional {
        /// Name of the value in the help.
        name: &'static str,
        /// What stands for no value.
        default: &'static str,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Long name, without dashes; also the key under which the parser keeps it.
    pub long: &'static str,
    /// Letters that stand for it; the first is shown.
    pub short: &'static [char],
    pub takes: Takes,
    /// Heading in the help.
    pub heading: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
}

/// An option of a table.
pub const fn flag(
    long: &'static str,
    short: &'static [char],
    takes: Takes,
    heading: &'static str,
    help: &'static str,
) -> Flag {
    Flag {
        long,
        short,
        takes,
        heading,
        help,
    }
}

impl Flag {
    /// The setting that it stands for.
    pub fn key(&self) -> String {
        self.long.replace('-', "_")
    }

    /// The variable that stands for it under cudawrap.
    pub fn variable(&self) -> String {
        format!("CUDAWRAP_{}", self.key().to_ascii_uppercase())
    }
}

/// How much is to be said, by `-v` and `-q`.
pub fn level(typed: &clap::ArgMatches) -> Level {
    match (typed.get_flag("quiet"), typed.get_flag("verbose")) {
        (true, _) => Level::Quiet,
        (_, true) => Level::Verbose,
        _ => Level::Normal,
    }
}

/// A parser for `flags`, without positional arguments. --help and --version are flags of
/// the table like any other.
pub fn command(
    name: &'static str,
    about: &'static str,
    flags: impl Iterator<Item = Flag>,
) -> Command {
    let base = Command::new(name)
        .about(about)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .max_term_width(100);
    flags.enumerate().fold(base, |command, (place, flag)| {
        let command = command.arg(argument(&flag).display_order(2 * place));
        letter(&flag).into_iter().fold(command, |command, arg| {
            command.arg(arg.display_order(2 * place + 1))
        })
    })
}

/// Key of the letter of an option whose value is optional; there is one such option.
pub(crate) const LETTER: &str = "letter";

/// The letter of an option whose value is optional is an argument of its own, since it
/// always takes a value.
fn letter(flag: &Flag) -> Option<Arg> {
    let (Takes::Optional { name, .. }, [letter, ..]) = (flag.takes, flag.short) else {
        return None;
    };
    let arg = Arg::new(LETTER)
        .short(*letter)
        .value_name(name)
        .help_heading(flag.heading);
    let help = format!("The same as --{}={name}", flag.long);
    Some(
        arg.help(help)
            .action(ArgAction::Set)
            .allow_hyphen_values(true)
            .conflicts_with(flag.long),
    )
}

fn argument(flag: &Flag) -> Arg {
    let arg = Arg::new(flag.long)
        .long(flag.long)
        .help(flag.help)
        .help_heading(flag.heading);
    let arg = match flag.short {
        [] => arg,
        _ if matches!(flag.takes, Takes::Optional { .. }) => arg,
        [first, rest @ ..] => arg.short(*first).visible_short_aliases(rest.to_vec()),
    };
    match flag.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue).overrides_with(flag.long),
        Takes::Value(name) => arg
            .action(ArgAction::Set)
            .value_name(name)
            .allow_hyphen_values(true),
        Takes::Many(name) => arg
            .action(ArgAction::Append)
            .value_name(name)
            .allow_hyphen_values(true),
        Takes::Optional { name, default } => arg
            .action(ArgAction::Set)
            .value_name(name)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value(default),
    }
}

/// clap's complaint as one line of ours.
pub fn usage_failure(program: &str, error: &clap::Error) -> Failure {
    let text = error.to_string();
    let line = text
        .lines()
        .next()
        .unwrap_or("")
        .trim_start_matches("error: ")
        .trim_end_matches(':')
        .to_owned();
    let missing: Vec<&str> = text
        .lines()
        .skip(1)
        .take_while(|l| l.starts_with("  "))
        .map(str::trim)
        .collect();
    let line = if missing.is_empty() {
        line
    } else {
        format!("{line}: {}", missing.join(" "))
    };
    let line = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => {
            format!("{word}: no such option")
        }
        _ => line,
    };
    let hint = similar(error).map_or_else(
        || format!("{program} --help"),
        |option| format!("did you mean {option}? {program} --help lists all options"),
    );
    Failure::new(Kind::Usage, line).hint(hint)
}

/// The option that was meant, where one is like what was typed.
fn similar(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(option)) => Some(option.clone()),
        Some(ContextValue::Strings(options)) => options.first().cloned(),
        _ => match error.get(ContextKind::InvalidArg)? {
            ContextValue::String(word) => by_other_name(word),
            _ => None,
        },
    }
}

/// The option that other programs call otherwise, such as Slurm's `--mem`.
fn by_other_name(word: &str) -> Option<String> {
    let known = [("--mem", "--min-memory"), ("--memory", "--min-memory")];
    let (_, option) = known.iter().find(|(other, _)| *other == word)?;
    Some((*option).to_owned())
}
