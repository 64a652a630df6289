//! What was typed, read by the table and checked. Options end at the program; from there
//! on every word is the program's. Every refusal is one line with a hint.

use std::ffi::OsString;

use clap::ArgMatches;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::flags;
use getgpu_common::help_text::Asked;
use getgpu_common::overrides::Overrides;
use getgpu_common::quantity;

use super::table::{GUIDE, command};
use super::{Options, Wanted};

/// Reads all arguments, the first being our own name.
pub fn parse(arguments: &[OsString]) -> Result<Wanted, Failure> {
    match arguments {
        // To build the parser takes a tenth of what a start takes (`make budget`), and in
        // `cudawrap -- PROGRAM` there is nothing for it.
        [_, dashes, program @ ..] if dashes == "--" && !program.is_empty() => {
            Ok(Wanted::Run(Options::of(program.to_vec())))
        }
        _ => parsed(arguments),
    }
}

/// The same by the parser in any case.
fn parsed(arguments: &[OsString]) -> Result<Wanted, Failure> {
    let words =
        std::iter::once(OsString::from("cudawrap")).chain(arguments.iter().skip(1).cloned());
    let typed = command()
        .try_get_matches_from(words)
        .map_err(|error| flags::usage_failure("cudawrap", &error))?;
    if typed.get_flag("help") {
        let asked = Asked::by(arguments);
        return Ok(Wanted::Text(GUIDE.text(command(), asked)));
    }
    if typed.get_flag("version") {
        let version = env!("CARGO_PKG_VERSION");
        return Ok(Wanted::Text(format!("cudawrap {version}\n")));
    }
    options(arguments, &typed).map(Wanted::Run)
}

fn options(arguments: &[OsString], typed: &ArgMatches) -> Result<Options, Failure> {
    let choices = Overrides::of(typed, "cudawrap")?;
    let program: Vec<OsString> = typed
        .get_many::<OsString>("program")
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    if program.is_empty() {
        return Err(no_program());
    }
    if let Some(time) = time_for_program(arguments, &program) {
        return Err(Failure::new(
            Kind::Usage,
            format!("--wait {time}: {time} would be the program"),
        )
        .hint(format!("cudawrap --wait={time} -- PROGRAM")));
    }
    let flag = |name| typed.get_flag(name);
    Ok(Options {
        choices,
        ignore_grant: flag("ignore-grant"),
        visible: typed.get_one::<String>("visible").cloned(),
        mps: flag("mps"),
        bind: flag("bind"),
        auto: flag("auto"),
        level: flags::level(typed),
        program,
    })
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

/// The failure of a call without a program.
pub fn no_program() -> Failure {
    usage("no program to run".into())
}

fn usage(message: String) -> Failure {
    Failure::new(Kind::Usage, message).hint("cudawrap --help")
}

#[cfg(test)]
mod tests {
    use super::super::table::table;
    use super::*;

    fn parse(words: &[&str]) -> Result<Wanted, Failure> {
        super::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_end_at_the_program() {
        for words in [
            &[
                "cudawrap", "--type", "mig", "app", "--type", "gpu", "-v", "--help", "--",
            ][..],
            &[
                "cudawrap", "--type", "mig", "--", "app", "--type", "gpu", "-v", "--help", "--",
            ],
        ] {
            let Ok(Wanted::Run(options)) = parse(words) else {
                panic!("{words:?}")
            };
            assert_eq!(options.choices.first_of(&["type"]), Some("--type"));
            assert_eq!(
                options.program,
                ["app", "--type", "gpu", "-v", "--help", "--"]
            );
        }
    }

    #[test]
    fn without_options_the_parser_is_not_missed() {
        for program in [
            &["app"][..],
            &["app", "--type", "--", "-h"],
            &["--", "x"],
            &["-h"],
        ] {
            let words = ["cudawrap", "--"].iter().chain(program);
            let words: Vec<OsString> = words.map(OsString::from).collect();
            assert_eq!(super::parse(&words), parsed(&words), "{program:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        for words in [
            &["cudawrap"][..],
            &["cudawrap", "--"],
            &["cudawrap", "--nope", "app"],
            &["cudawrap", "--type", "x", "app"],
            &["cudawrap", "--share", "3/2", "app"],
            &["cudawrap", "--wait", "30", "app"],
        ] {
            let failure = parse(words).unwrap_err();
            assert_eq!(failure.kind, Kind::Usage, "{words:?}");
            assert!(!failure.message.contains('\n'));
        }
    }

    #[test]
    fn every_option_is_in_the_help() {
        let Ok(Wanted::Text(help)) = parse(&["cudawrap", "--help"]) else {
            panic!()
        };
        assert!(
            table().all(|flag| help.contains(&format!("--{}", flag.long))),
            "{help}"
        );
    }
}
