//! cudawrap's options under its own name, and the CUDAWRAP_* variables that stand for them in both forms.
//! Options end at the program; from there on every word is the program's.

use std::ffi::OsString;

use clap::{Arg, ArgAction};
use getgpu_common::diag::Level;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::flags::{self, Flag, Takes, flag};
use getgpu_common::quantity;
use getgpu_common::settings::Loaded;
use getgpu_common::sys;
use getgpu_common::typed::Typed;

/// What only cudawrap has.
const FLAGS: [Flag; 3] = [
    flag(
        "visible",
        &[],
        Takes::Value("WHICH"),
        RUN,
        "one: the program sees its own device; first: its own first, the others behind it; all: the list as it is",
    ),
    flag(
        "mps",
        &[],
        Takes::Nothing,
        flags::SHARE,
        "With --share: run as a client of NVIDIA's MPS daemon, which is started and ended as needed",
    ),
    flag(
        "bind",
        &[],
        Takes::Nothing,
        RUN,
        "Run on the CPUs near the device, with --share on a part of them that no other share has",
    ),
];

/// Heading of what has to do with the program alone.
const RUN: &str = "How the program runs";

/// Every option of cudawrap: getgpu's that choose, its own, and those that all have.
pub fn table() -> impl Iterator<Item = Flag> {
    flags::CHOOSING.into_iter().chain(FLAGS).chain(flags::COMMON)
}

const ABOUT: &str = "Run a program on a free MIG device or GPU, leased until the program is over";

const AFTER: &str = "\
An executable that is a link to cudawrap runs its sibling CUDAWRAP_<name> in
the same way, with every argument untouched; create-cudawrap makes such links.

Exit status:
  the program's own, since this process becomes the program
  75   no device is free now, or within the time to wait
  125  cudawrap failed; 126 the program cannot be run; 127 it was not found

Environment:
  CUDA_VISIBLE_DEVICES  a grant: one of these devices is chosen
  CUDAWRAP_NAME         stands for option --NAME, under a link too: CUDAWRAP_TYPE,
                        CUDAWRAP_COUNT, CUDAWRAP_PROFILE, CUDAWRAP_MIN_MEMORY,
                        CUDAWRAP_GPU, CUDAWRAP_POLICY, CUDAWRAP_SHARE,
                        CUDAWRAP_WAIT (a time, or forever), CUDAWRAP_IGNORE_GRANT=1,
                        CUDAWRAP_MPS=1 (or 0), CUDAWRAP_BIND=1 (or 0),
                        CUDAWRAP_VISIBLE
  CUDAWRAP_DISABLE=1    run the program as it is
  GETGPU_CONFIG, GETGPU_LOCK  as for getgpu";

/// The checked options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What chooses, shares and waits.
    pub choices: Typed,
    /// `--ignore-grant`
    pub ignore_grant: bool,
    /// `--visible`
    pub visible: Option<String>,
    /// `--mps`
    pub mps: bool,
    /// `--bind`
    pub bind: bool,
    /// `-v`, `-q`
    pub level: Level,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Run a program.
    Run(Options),
    /// Print this.
    Text(String),
}

fn command() -> clap::Command {
    let program = Arg::new("program")
        .value_name("PROGRAM")
        .help("The program and its arguments")
        .action(ArgAction::Append)
        .num_args(1..)
        .trailing_var_arg(true)
        .value_parser(clap::value_parser!(OsString));
    flags::command("cudawrap", ABOUT, table()).arg(program).override_usage("cudawrap [OPTIONS] [--] PROGRAM [ARG]...")
}

/// Reads all arguments, the first being our own name.
pub fn parse(arguments: &[OsString]) -> Result<Wanted, Failure> {
    let words = std::iter::once(OsString::from("cudawrap")).chain(arguments.iter().skip(1).cloned());
    let typed = command().try_get_matches_from(words).map_err(|error| flags::usage_failure("cudawrap", &error))?;
    if typed.get_flag("help") {
        return Ok(Wanted::Text(format!("{}\n{AFTER}\n", command().render_help())));
    }
    if typed.get_flag("version") {
        return Ok(Wanted::Text(format!("cudawrap {}\n", env!("CARGO_PKG_VERSION"))));
    }
    let choices = Typed::of(&typed, "cudawrap")?;
    let program: Vec<OsString> = typed.get_many::<OsString>("program").into_iter().flatten().cloned().collect();
    if program.is_empty() {
        return Err(no_program());
    }
    if let Some(time) = time_for_program(arguments, &program) {
        return Err(Failure::new(Kind::Usage, format!("--wait {time}: {time} would be the program"))
            .hint(format!("cudawrap --wait={time} -- PROGRAM")));
    }
    let level = flags::level(&typed);
    let flag = |name| typed.get_flag(name);
    let (ignore_grant, mps, bind) = (flag("ignore-grant"), flag("mps"), flag("bind"));
    let visible = typed.get_one::<String>("visible").cloned();
    Ok(Wanted::Run(Options { choices, ignore_grant, visible, mps, bind, level, program }))
}

/// `cudawrap --wait 30 app` would run a program called 30.
fn time_for_program<'a>(arguments: &'a [OsString], program: &[OsString]) -> Option<&'a str> {
    let first = arguments.len().checked_sub(program.len())?;
    let (before, time) = (arguments.get(first.checked_sub(1)?)?, arguments.get(first)?.to_str()?);
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

/// Whether CUDAWRAP_DISABLE=1 turns the wrapper into a plain exec.
pub fn disabled() -> bool {
    !sys::secure_execution() && std::env::var_os("CUDAWRAP_DISABLE").is_some_and(|value| value == "1")
}

/// Whether CUDAWRAP_IGNORE_GRANT=1 says what --ignore-grant says.
pub fn grant_ignored() -> bool {
    !sys::secure_execution()
        && std::env::var_os("CUDAWRAP_IGNORE_GRANT").is_some_and(|value| value == "1" || value == "true")
}

/// Puts the CUDAWRAP_* variables over the settings. Under secure execution none is believed.
pub fn variables(loaded: &mut Loaded) -> Result<(), Failure> {
    if sys::secure_execution() {
        return Ok(());
    }
    for (key, name) in FLAGS.iter().map(|flag| (flag.key(), flag.variable())) {
        if let Some(text) = std::env::var_os(&name).filter(|text| !text.is_empty()) {
            loaded.put(&key, &[text.to_string_lossy().into_owned()], &name)?;
        }
    }
    Typed::of_variables(|name| std::env::var_os(name)).put(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Wanted, Failure> {
        super::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_end_at_the_program() {
        for words in [
            &["cudawrap", "--type", "mig", "app", "--type", "gpu", "-v", "--help", "--"][..],
            &["cudawrap", "--type", "mig", "--", "app", "--type", "gpu", "-v", "--help", "--"],
        ] {
            let Ok(Wanted::Run(options)) = parse(words) else { panic!("{words:?}") };
            assert_eq!(options.choices.first_of(&["type"]), Some("--type"));
            assert_eq!(options.program, ["app", "--type", "gpu", "-v", "--help", "--"]);
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
        let Ok(Wanted::Text(help)) = parse(&["cudawrap", "--help"]) else { panic!() };
        assert!(table().all(|flag| help.contains(&format!("--{}", flag.long))), "{help}");
    }
}
