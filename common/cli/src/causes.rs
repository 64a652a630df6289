//! What can go wrong with a command line in every program, as the user reads it: each row has the
//! status, the line and the hint of one failure.

use clap::error::ContextValue;
use getgpu_model::causes;

causes! {
    /// Why a command line is refused.
    pub(crate) enum CliCause<'a> {
        Misused { what: Misuse<'a>, remedy: UsageRemedy<'a> } => Usage: "{what}", "{remedy}";
    }

    /// What clap complains of.
    pub(crate) enum Misuse<'a> {
        /// As it was typed, blanks and all: `getgpu "--gpu 0"`.
        NoSuchOption { typed: &'a ContextValue } => "{typed}: no such option";
        GivenTwice { option: &'a str } => "{option}: given twice";
        Exclusive { option: &'a str, other: &'a str } => "{option} and {other} exclude each other";
        NoValue { option: &'a str, why: String } => "{option}: {why}";
        NoneOf { option: &'a str, value: &'a str, all: String } => "{option} {value}: not one of {all}";
        InClapsWords { line: String } => "{line}";
    }

    /// What to type instead.
    pub(crate) enum UsageRemedy<'a> {
        AskHelp { program: &'a str } => "{program} --help";
        TryOption { option: String, program: &'a str } => "did you mean {option}? {program} --help lists all options";
    }
}
