//! What was typed, read by the table and checked. Options end at the program; from there
//! on every word is the program's. Every refusal is one line with a hint.

use std::ffi::OsString;

use clap::FromArgMatches;
use getgpu_cli::{HelpLength, Overrides, flags};
use getgpu_model::{Failure, quantity};

use super::table::{CudawrapArguments, GUIDE, command};
use super::{CudawrapOptions, Wanted};
use crate::causes::CudawrapUsage;

/// Reads all arguments, the first being our own name.
pub fn parse(arguments: &[OsString]) -> Result<Wanted, Failure> {
    let words =
        std::iter::once(OsString::from("cudawrap")).chain(arguments.iter().skip(1).cloned());
    let typed = command().try_get_matches_from(words);
    let typed = typed.and_then(|matches| CudawrapArguments::from_arg_matches(&matches));
    let typed = typed.map_err(|error| flags::usage_failure("cudawrap", &error))?;
    if typed.common.help {
        let asked = HelpLength::by(arguments);
        return Ok(Wanted::Text(GUIDE.text(command(), asked)));
    }
    if typed.common.version {
        let version = env!("CARGO_PKG_VERSION");
        return Ok(Wanted::Text(format!("cudawrap {version}\n")));
    }
    options(arguments, typed).map(|options| Wanted::Run(Box::new(options)))
}

fn options(arguments: &[OsString], typed: CudawrapArguments) -> Result<CudawrapOptions, Failure> {
    let said = [&typed.choosing.said()[..], &typed.running.said()].concat();
    let choices = Overrides::of(said, "cudawrap")?;
    if typed.program.is_empty() {
        return Err(CudawrapUsage::NoProgram.into());
    }
    if let Some(time) = time_for_program(arguments, &typed.program) {
        return Err(CudawrapUsage::TimeAsProgram { time }.into());
    }
    Ok(CudawrapOptions { choices, typed })
}

/// `cudawrap --wait 30 app` would run a program called 30.
fn time_for_program<'a>(arguments: &'a [OsString], program: &[OsString]) -> Option<&'a str> {
    let first = arguments.len().checked_sub(program.len())?;
    let (before, time) = (
        arguments.get(first.checked_sub(1)?)?,
        arguments.get(first)?.to_str()?,
    );
    let like_time = time.starts_with(|c: char| c.is_ascii_digit()) && quantity::time(time).is_ok();
    (before == "--wait" && like_time).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use getgpu_model::Kind;

    fn parse(words: &[&str]) -> Result<Wanted, Failure> {
        super::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_end_at_the_program() {
        let program = "app --type gpu -v --help --";
        for before in ["cudawrap --type mig", "cudawrap --type mig --"] {
            let words = format!("{before} {program}");
            let words: Vec<&str> = words.split(' ').collect();
            let Ok(Wanted::Run(options)) = parse(&words) else {
                panic!("{words:?}")
            };
            assert_eq!(options.choices.first_of(&["type"]), Some("--type"));
            assert!(options.typed.program.iter().eq(program.split(' ')));
        }
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        for words in [
            "",
            "--",
            "--nope app",
            "--type x app",
            "--share 3/2 app",
            "--wait 30 app",
        ] {
            let words = ["cudawrap"].into_iter().chain(words.split_whitespace());
            let failure = parse(&words.collect::<Vec<_>>()).unwrap_err();
            assert_eq!(failure.kind, Kind::Usage, "{failure}");
            assert!(!failure.message.contains('\n'), "{failure}");
        }
    }

    #[test]
    fn every_option_is_in_the_help() {
        let Ok(Wanted::Text(help)) = parse(&["cudawrap", "--help"]) else {
            panic!()
        };
        let command = command();
        let mut longs = command.get_opts().filter_map(clap::Arg::get_long);
        assert!(
            longs.all(|long| help.contains(&format!("--{long}"))),
            "{help}"
        );
    }
}
