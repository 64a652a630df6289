//! The form of a flag table: what each program's options are called and what they are for, once.
//! The parser, --help, and later man pages and completions are all made from such a table.

use clap::{Arg, ArgAction, Command};

use crate::diag::Level;
use crate::error::{Failure, Kind};
use crate::settings::Type;

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

/// Heading of the options that choose.
pub const CHOOSE: &str = "Which device";
/// Heading of the options that every program has.
pub const OTHER: &str = "Other";

/// An option of a table.
pub const fn flag(
    long: &'static str,
    short: &'static [char],
    takes: Takes,
    heading: &'static str,
    help: &'static str,
) -> Flag {
    Flag { long, short, takes, heading, help }
}

/// The choosing options, which getgpu and cudawrap share.
pub const CHOOSING: [Flag; 2] = [
    flag(
        "type",
        &[],
        Takes::Value("TYPE"),
        CHOOSE,
        "auto (MIG devices if there are any, else whole GPUs), mig, gpu or any",
    ),
    flag("ignore-grant", &[], Takes::Nothing, CHOOSE, "Ignore an inherited CUDA_VISIBLE_DEVICES"),
];

/// The options that both have at the end.
pub const COMMON: [Flag; 4] = [
    flag("verbose", &['v'], Takes::Nothing, OTHER, "Say what is decided"),
    flag("quiet", &['q'], Takes::Nothing, OTHER, "Errors only, no hints"),
    flag("version", &['V'], Takes::Nothing, OTHER, "Print the version"),
    flag("help", &['h'], Takes::Nothing, OTHER, "Print this"),
];

/// How much is to be said, by `-v` and `-q`.
pub fn level(typed: &clap::ArgMatches) -> Level {
    match (typed.get_flag("quiet"), typed.get_flag("verbose")) {
        (true, _) => Level::Quiet,
        (_, true) => Level::Verbose,
        _ => Level::Normal,
    }
}

/// The type that was typed.
pub fn kind(typed: &clap::ArgMatches) -> Result<Option<Type>, String> {
    typed.get_one::<String>("type").map(|value| value.parse().map_err(|e| format!("--type {e}"))).transpose()
}

/// A parser for `flags`, without positional arguments. --help and --version are flags of the table like any other.
pub fn command(name: &'static str, about: &'static str, flags: impl Iterator<Item = Flag>) -> Command {
    let base = Command::new(name).about(about).disable_help_flag(true).disable_version_flag(true).max_term_width(100);
    flags.enumerate().fold(base, |command, (place, flag)| command.arg(argument(&flag).display_order(place)))
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
