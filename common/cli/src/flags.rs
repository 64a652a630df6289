//! What the parsers of all programs have in common: they are made by clap from a struct
//! of typed options, whose comments are the help, the man pages and the completions; and
//! what clap complains of becomes one line.

use std::error::Error;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, ValueHint};

use getgpu_model::Failure;

use super::causes::{CliCause, Misuse, UsageRemedy};

/// A program's parser in the form that all have: --help and --version are options of the
/// struct like any other, an option without a value may stand twice, and a value may
/// begin with a dash, so that `--count -1` is told to be no number.
pub fn prepared(command: Command) -> Command {
    let command = command
        .disable_help_flag(true)
        .disable_version_flag(true)
        .max_term_width(100);
    command.mut_args(|arg| {
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            let id = arg.get_id().clone();
            return arg.overrides_with(id);
        }
        let word = arg.get_value_hint() == ValueHint::Unknown && !arg.is_require_equals_set();
        if word && !arg.is_positional() {
            arg.allow_hyphen_values(true)
        } else {
            arg
        }
    })
}

/// clap's complaint as one line in this package's form.
pub fn usage_failure(program: &str, error: &clap::Error) -> Failure {
    let what = misuse(error).unwrap_or_else(|| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let line = first.trim_start_matches("error: ").to_owned();
        Misuse::InClapsWords { line }
    });
    let remedy = match similar(error) {
        None => UsageRemedy::AskHelp { program },
        Some(option) => UsageRemedy::TryOption { option, program },
    };
    CliCause::Misused { what, remedy }.into()
}

/// The failure of two options that exclude each other.
pub fn exclusive(program: &str, option: &str, other: &str) -> Failure {
    let (what, remedy) = (
        Misuse::Exclusive { option, other },
        UsageRemedy::AskHelp { program },
    );
    CliCause::Misused { what, remedy }.into()
}

/// The words for what clap says in more words than one, or without the reason.
fn misuse(error: &clap::Error) -> Option<Misuse<'_>> {
    let argument = error.get(ContextKind::InvalidArg)?;
    let option = name(argument)?;
    match error.kind() {
        ErrorKind::UnknownArgument => Some(Misuse::NoSuchOption { typed: argument }),
        ErrorKind::ArgumentConflict => Some(match name(error.get(ContextKind::PriorArg)?)? {
            other if other == option => Misuse::GivenTwice { option },
            other => Misuse::Exclusive { option, other },
        }),
        ErrorKind::ValueValidation => {
            let why = error.source()?.to_string();
            Some(Misuse::NoValue { option, why })
        }
        ErrorKind::InvalidValue => {
            let (Some(ContextValue::String(value)), Some(ContextValue::Strings(known))) = (
                error.get(ContextKind::InvalidValue),
                error.get(ContextKind::ValidValue),
            ) else {
                return None;
            };
            let all = known.join(", ");
            (!value.is_empty()).then_some(Misuse::NoneOf { option, value, all })
        }
        _ => None,
    }
}

/// The name in what clap calls an argument: `--hold` of `--hold[=<PID>]`.
fn name(argument: &ContextValue) -> Option<&str> {
    let text = match argument {
        ContextValue::String(text) => text,
        ContextValue::Strings(all) => all.first()?,
        _ => return None,
    };
    text.trim_start_matches('[').split([' ', '[', ']']).next()
}

/// The option that was meant, where one is like what was typed.
fn similar(error: &clap::Error) -> Option<String> {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && let Some(option) = by_other_name(word)
    {
        return Some(option);
    }
    match error.get(ContextKind::SuggestedArg)? {
        ContextValue::String(option) => Some(option.clone()),
        ContextValue::Strings(options) => options.first().cloned(),
        _ => None,
    }
}

/// The option that other programs call otherwise, such as Slurm's `--mem` and `--gpus`.
fn by_other_name(word: &str) -> Option<String> {
    let known = [
        ("--mem", "--min-memory"),
        ("--memory", "--min-memory"),
        ("--gpus", "--count"),
        ("--n", "-n"),
    ];
    let (_, option) = known.iter().find(|(other, _)| *other == word)?;
    Some((*option).to_owned())
}
