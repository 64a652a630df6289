//! getgpu's options: the flag table, and what was typed turned into one checked value.
//! Nothing here touches the system; later files never look at a flag again.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Arg, ArgMatches};
use getgpu_common::diag::Level;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::flags::{self, Flag, Takes, flag};
use getgpu_common::quantity;
use getgpu_common::typed::Typed;

const KEEP: &str = "Keeping it";
const SHOW: &str = "Looking";
/// What `--hold` means without a value.
const CALLER: &str = "caller";

/// What only getgpu has.
const FLAGS: &[Flag] = &[
    flag(
        "for",
        &[],
        Takes::Value("TIME"),
        KEEP,
        "How long the reservation waits for its program to appear [default: 60]",
    ),
    flag(
        "hold",
        &[],
        Takes::Optional { name: "PID", default: CALLER },
        KEEP,
        "Keep it until PID (default: the caller) is over, whatever runs; 0 (root): until released",
    ),
    flag("tag", &[], Takes::Value("NAME"), KEEP, "Name the reservation; alone: print what is reserved under NAME"),
    flag("uid", &[], Takes::Value("UID"), KEEP, "Root: for this user"),
    flag("no-reserve", &[], Takes::Nothing, KEEP, "Print only"),
    flag(
        "release",
        &[],
        Takes::Value("UUID-or-TAG"),
        KEEP,
        "Give up my reservation of UUID, or under TAG (root: anybody's)",
    ),
    flag("release-all", &[], Takes::Nothing, KEEP, "Give up all my reservations (root: everybody's)"),
    flag("list", &['l', 'L'], Takes::Nothing, SHOW, "Table of all devices: state, who, program, since when"),
    flag("json", &[], Takes::Nothing, SHOW, "With --list: for programs"),
    flag("count-free", &[], Takes::Nothing, SHOW, "Print the number of free devices"),
    flag(
        "format",
        &[],
        Takes::Value("FORMAT"),
        SHOW,
        "uuid, index (CUDA_DEVICE_ORDER=PCI_BUS_ID, whole GPUs only) or env (an export line)",
    ),
    flag("explain", &[], Takes::Nothing, SHOW, "Say for every other device why it was not taken"),
    flag("show-config", &[], Takes::Nothing, SHOW, "Each setting and where it comes from"),
];

/// Every option of getgpu.
pub fn table() -> impl Iterator<Item = Flag> {
    flags::CHOOSING.into_iter().chain(FLAGS.iter().copied()).chain(flags::COMMON)
}

const ABOUT: &str = "Print the UUID of a free MIG device or GPU, and keep it reserved for the program that will use it";

const AFTER: &str = "\
Examples:
  one program, reserved until it is over:
    CUDA_VISIBLE_DEVICES=$(getgpu) ./app
  a shell session, reserved until this shell ends:
    export CUDA_VISIBLE_DEVICES=$(getgpu --hold)
  the same in Python, before CUDA is used:
    os.environ[\"CUDA_VISIBLE_DEVICES\"] = subprocess.check_output([\"getgpu\", \"--hold\"], text=True).strip()
  leased by the program itself, and nothing is run if no device is free:
    cudawrap -- ./app
  the smallest device with 10 GiB, waiting in line for it for an hour at most:
    d=$(getgpu --min-memory 10G --wait=1h) && CUDA_VISIBLE_DEVICES=$d ./app

Exit status:
  0  printed
  1  no device is free now, or within the time to wait
  2  usage or settings, no such index
  3  no driver, NVML failed, no such device exists here
  4  the lock cannot be used, or no holder could be started

Environment:
  CUDA_VISIBLE_DEVICES  a grant: only these devices are considered
  GETGPU_CONFIG         stands for /etc/getgpu/config.toml
  GETGPU_LOCK           stands for /run/getgpu/lock (tests)";

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The UUID.
    Uuid,
    /// The CUDA index.
    Index,
    /// A line for the shell.
    Env,
}

/// Until when a reservation is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing is reserved.
    No,
    /// While programs name the device.
    ForProgram,
    /// Until this process is over; none: the caller.
    Hold(Option<i32>),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Print a device: this one of the order, or any free one.
    Print(Option<usize>),
    /// Show all devices.
    List {
        /// For programs.
        json: bool,
    },
    /// Print how many are free.
    CountFree,
    /// Print what is reserved under this tag.
    Tagged(String),
    /// Give up a reservation.
    Release(String),
    /// Give up all.
    ReleaseAll,
    /// Show the settings.
    ShowConfig,
    /// Print this text and be done.
    Text(String),
}

/// The checked options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is to be done.
    pub action: Action,
    /// What chooses, shares and waits.
    pub choices: Typed,
    /// `--ignore-grant`
    pub ignore_grant: bool,
    /// `--for`
    pub reserve_for: Option<Duration>,
    /// `--hold`, `--no-reserve`
    pub keep: Keep,
    /// `--tag`
    pub tag: Option<String>,
    /// `--uid`
    pub uid: Option<u32>,
    /// `--format`
    pub format: Format,
    /// `--explain`
    pub explain: bool,
    /// `-v`, `-q`
    pub level: Level,
}

fn command() -> clap::Command {
    let index =
        Arg::new("index").value_name("INDEX").help("That device of the order, in use or not; reserved if it is free");
    flags::command("getgpu", ABOUT, table()).arg(index)
}

/// Settings whose options choose, share or wait, which INDEX excludes; the type decides what is counted.
const WITHOUT_INDEX: [&str; 7] = ["count", "profile", "min_memory", "gpu", "policy", "share", "wait"];

/// Reads the arguments behind the program's name.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Options, Failure> {
    let typed = command().try_get_matches_from(std::iter::once(OsString::from("getgpu")).chain(arguments));
    check(&typed.map_err(|error| flags::usage_failure("getgpu", &error))?)
}

fn check(typed: &ArgMatches) -> Result<Options, Failure> {
    let given = |name: &str| typed.get_flag(name);
    let text = |name: &str| typed.get_one::<String>(name).map(String::as_str);
    if given("help") {
        return Ok(Options::only(Action::Text(format!("{}\n{AFTER}\n", command().render_help()))));
    }
    if given("version") {
        return Ok(Options::only(Action::Text(format!("getgpu {}\n", env!("CARGO_PKG_VERSION")))));
    }
    let format = match text("format") {
        None | Some("uuid") => Format::Uuid,
        Some("index") => Format::Index,
        Some("env") => Format::Env,
        Some(other) => return Err(usage(format!("--format {other}: not one of uuid, index, env"))),
    };
    let choices = Typed::of(typed, "getgpu")?;
    if format == Format::Index && matches!(text("type"), Some("mig" | "any")) {
        return Err(usage("--format index names whole GPUs only; MIG devices have no CUDA index".into()));
    }
    if text("share") == Some("auto") {
        return Err(usage("--share auto: divides a grant among ranks, which cudawrap does".into()));
    }
    let tag = text("tag").map(tag_name).transpose()?;
    let uid = text("uid").map(uid_number).transpose()?;
    let mut action = action(typed)?;
    if (tag.is_some() || uid.is_some()) && !matches!(action, Action::Print(_)) {
        return Err(usage("--tag and --uid go with printing a device, and nothing else".into()));
    }
    if let (Some(name), true) = (&tag, only_the_tag(typed, &choices, &action)) {
        action = Action::Tagged(name.clone());
    }
    if let (Action::Print(Some(index)), Some(other)) = (&action, choices.first_of(&WITHOUT_INDEX)) {
        let failure = usage(format!("INDEX {index} and {other} exclude each other"));
        return Err(if matches!(other, "--wait" | "-w") {
            failure.hint(format!("to wait at most {index} seconds for any device: getgpu --wait={index}"))
        } else {
            failure
        });
    }
    if let (false, Some(other)) = (
        matches!(action, Action::Print(_) | Action::ShowConfig | Action::Tagged(_)),
        choices.first_of(&["wait", "count", "policy"]),
    ) {
        return Err(usage(format!("{other} goes with printing a device, and nothing else")));
    }
    let options = Options {
        action,
        choices,
        ignore_grant: given("ignore-grant"),
        reserve_for: text("for").map(|t| quantity::time(t).map_err(|e| usage(format!("--for: {e}")))).transpose()?,
        keep: keep(text("hold"), given("no-reserve"))?,
        tag,
        uid,
        format,
        explain: given("explain"),
        level: flags::level(typed),
    };
    if options.keep != Keep::ForProgram && options.reserve_for.is_some() {
        return Err(usage("--for has no meaning with --hold or --no-reserve".into()));
    }
    if options.keep == Keep::No && (options.tag.is_some() || options.uid.is_some()) {
        return Err(usage("--no-reserve reserves nothing that could have a tag or a user".into()));
    }
    Ok(options)
}

fn action(typed: &ArgMatches) -> Result<Action, Failure> {
    let given = |name: &str| typed.get_flag(name);
    let mut wanted: Vec<(&str, Action)> = Vec::new();
    if let Some(index) = typed.get_one::<String>("index") {
        let number = index
            .parse()
            .map_err(|_| usage(format!("`{index}` is not an index: 0, 1, ... as getgpu --list shows them")))?;
        wanted.push(("INDEX", Action::Print(Some(number))));
    }
    if given("list") {
        wanted.push(("--list", Action::List { json: given("json") }));
    } else if given("json") {
        return Err(usage("--json goes with --list".into()));
    }
    if given("count-free") {
        wanted.push(("--count-free", Action::CountFree));
    }
    if let Some(name) = typed.get_one::<String>("release") {
        wanted.push(("--release", Action::Release(name.clone())));
    }
    if given("release-all") {
        wanted.push(("--release-all", Action::ReleaseAll));
    }
    if given("show-config") {
        wanted.push(("--show-config", Action::ShowConfig));
    }
    match wanted.as_slice() {
        [] => Ok(Action::Print(None)),
        [(_, only)] => Ok(only.clone()),
        [(first, _), (second, _), ..] => Err(usage(format!("{first} and {second} exclude each other"))),
    }
}

fn keep(hold: Option<&str>, no_reserve: bool) -> Result<Keep, Failure> {
    match (hold, no_reserve) {
        (Some(_), true) => Err(usage("--hold and --no-reserve exclude each other".into())),
        (None, true) => Ok(Keep::No),
        (None, false) => Ok(Keep::ForProgram),
        (Some(CALLER), false) => Ok(Keep::Hold(None)),
        (Some(pid), false) => match pid.parse() {
            Ok(pid) if pid >= 0 => Ok(Keep::Hold(Some(pid))),
            _ => Err(usage(format!("--hold={pid}: not a process id"))),
        },
    }
}

/// Whether nothing but the tag was asked for: then what is reserved under it is printed.
fn only_the_tag(typed: &ArgMatches, choices: &Typed, action: &Action) -> bool {
    let kept = ["for", "hold", "uid"].iter().any(|name| typed.contains_id(name));
    *action == Action::Print(None) && choices.is_empty() && !kept && !typed.get_flag("no-reserve")
}

/// A tag is a word that can stand in a command line, a file name and a unit's name.
fn tag_name(name: &str) -> Result<String, Failure> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(name.to_owned());
    }
    Err(usage(format!("--tag {}: not 1 to 64 of A-Z a-z 0-9 . _ -", getgpu_common::diag::printable(name))))
}

fn uid_number(text: &str) -> Result<u32, Failure> {
    // The last number stands for no user at all (setuid(2)).
    text.parse().ok().filter(|uid| *uid != u32::MAX).ok_or_else(|| usage(format!("--uid {text}: not a user's number")))
}

fn usage(message: String) -> Failure {
    Failure::new(Kind::Usage, message).hint("getgpu --help")
}

impl Options {
    fn only(action: Action) -> Self {
        Self {
            action,
            choices: Typed::default(),
            ignore_grant: false,
            reserve_for: None,
            keep: Keep::ForProgram,
            tag: None,
            uid: None,
            format: Format::Uuid,
            explain: false,
            level: Level::Normal,
        }
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
