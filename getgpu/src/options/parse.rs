//! What was typed, read by the table and checked: which action it is, and what excludes
//! what. Every refusal names the option and hints at what would do.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;
use getgpu_common::error::Failure;
use getgpu_common::flags;
use getgpu_common::help_text::Asked;
use getgpu_common::overrides::Overrides;
use getgpu_common::quantity;

use super::table::{CALLER, FORMATS, GUIDE, LIST_FORMATS, command};
use super::{Action, Format, Hook, Keep, Options, listing, meant, usage};
use getgpu_common::diag::Level;

/// Settings whose options choose, share or wait, which INDEX excludes; the type decides
/// what is counted.
const WITHOUT_INDEX: [&str; 7] = [
    "count",
    "profile",
    "min_memory",
    "gpu",
    "policy",
    "share",
    "wait",
];

/// Reads the arguments behind the program's name.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Options, Failure> {
    let words: Vec<OsString> = std::iter::once("getgpu".into()).chain(arguments).collect();
    // To build the parser takes an eighth of what a pick takes (`make budget`), and
    // `$(getgpu)` has nothing for it.
    if words.len() == 1 {
        return Ok(Options::only(Action::Print(None)));
    }
    parsed(&words)
}

/// The same by the parser in any case.
pub(super) fn parsed(words: &[OsString]) -> Result<Options, Failure> {
    let typed = command().try_get_matches_from(words);
    let typed = typed.map_err(|error| flags::usage_failure("getgpu", &error))?;
    if typed.get_flag("help") {
        let text = GUIDE.text(command(), Asked::by(words));
        return Ok(Options::only(Action::Text(text)));
    }
    check(&typed)
}

fn check(typed: &ArgMatches) -> Result<Options, Failure> {
    if typed.get_flag("version") {
        let version = format!("getgpu {}\n", env!("CARGO_PKG_VERSION"));
        return Ok(Options::only(Action::Text(version)));
    }
    let time = |name: &str| {
        let read = |t| quantity::time(t).map_err(|e| usage(format!("--{name}: {e}")));
        text(typed, name).map(read).transpose()
    };
    let mut options = Options {
        format: format(typed)?,
        choices: Overrides::of(typed, "getgpu")?,
        tag: text(typed, "tag").map(tag_name).transpose()?,
        uid: text(typed, "uid").map(uid_number).transpose()?,
        reserve_for: time("for")?,
        keep: keep(text(typed, "hold"), typed.get_flag("no-reserve"))?,
        action: action(typed)?,
        ignore_grant: typed.get_flag("ignore-grant"),
        explain: typed.get_flag("explain"),
        level: flags::level(typed),
    };
    contradiction(typed, &options)?;
    if let (Some(name), true) = (&options.tag, options.only_the_tag(typed)) {
        options.action = Action::Tagged(name.clone());
    }
    printing_alone(typed, &options)?;
    Ok(options)
}

fn text<'t>(typed: &'t ArgMatches, name: &str) -> Option<&'t str> {
    typed.get_one::<String>(name).map(String::as_str)
}

/// How a device is printed.
fn format(typed: &ArgMatches) -> Result<Format, Failure> {
    match text(typed, "format") {
        None | Some("uuid") => Ok(Format::Uuid),
        Some("index") => Ok(Format::Index),
        Some("env") => Ok(Format::Env),
        Some("task") => Ok(Format::Task),
        Some(_) if typed.get_flag("list") => Ok(Format::Uuid),
        // `json` is what other programs take here.
        Some(other) if LIST_FORMATS.contains(&other) && other != "json" => {
            Err(usage(format!("--format {other} goes with --list")))
        }
        Some(other) => Err(usage(format!(
            "--format {other}: not one of {}",
            FORMATS.join(", ")
        ))),
    }
}

/// Refuses values and options that contradict each other whatever is to be done.
fn contradiction(typed: &ArgMatches, options: &Options) -> Result<(), Failure> {
    let Options {
        keep,
        format,
        tag,
        uid,
        ..
    } = options;
    let refused = if *format == Format::Index && matches!(text(typed, "type"), Some("mig" | "any"))
    {
        "--format index works for whole GPUs only: MIG devices have no CUDA index"
    } else if text(typed, "share") == Some("auto") {
        "--share auto: divides a grant among ranks, which cudawrap does"
    } else if *keep == Keep::No && options.reserve_for.is_some() {
        "--for has no meaning with --no-reserve"
    } else if *keep == Keep::Hold(Some(0)) && options.reserve_for.is_some() {
        "--for has no meaning with --hold=0, which holds until the device is released"
    } else if *keep == Keep::No && (tag.is_some() || uid.is_some()) {
        "--no-reserve excludes --tag and --uid, which name a reservation"
    } else {
        return Ok(());
    };
    Err(usage(refused.into()))
}

/// Refuses options that choose or keep a device where none is printed, and those that
/// choose beside INDEX.
fn printing_alone(typed: &ArgMatches, options: &Options) -> Result<(), Failure> {
    let Options {
        action, choices, ..
    } = options;
    if let (Action::Print(Some(index)), Some(other)) = (action, choices.first_of(&WITHOUT_INDEX)) {
        let failure = usage(format!("INDEX {index} and {other} exclude each other"));
        return Err(if matches!(other, "--wait" | "-w") {
            failure.hint(format!(
                "to wait at most {index} seconds for any device: getgpu --wait={index}"
            ))
        } else {
            failure
        });
    }
    let tagged = options.tag.is_some() || options.uid.is_some();
    if tagged && !matches!(action, Action::Print(_) | Action::Tagged(_)) {
        let text = "--tag and --uid can only be used when a device is printed";
        return Err(usage(text.into()));
    }
    let prints = matches!(
        action,
        Action::Print(_) | Action::Tagged(_) | Action::ShowConfig
    );
    let chooses = || choices.first_of(&["wait", "count", "policy"]);
    let other = chooses().map(str::to_owned);
    let other = other.or_else(|| only_for_printing(typed).map(|name| format!("--{name}")));
    match other.filter(|_| !prints) {
        Some(other) => Err(usage(format!(
            "{other} can only be used when a device is printed"
        ))),
        None => Ok(()),
    }
}

/// What is to be done: the one action that was asked for, else printing a device.
fn action(typed: &ArgMatches) -> Result<Action, Failure> {
    let given = |name: &str| typed.get_flag(name);
    let mut wanted: Vec<(&str, Action)> = Vec::new();
    wanted.extend(words(typed)?);
    wanted.extend(listing::action(typed)?);
    if given("queue") {
        let json = given("json");
        wanted.push(("--queue", Action::Queue { json }));
    } else if given("json") && !given("list") {
        return Err(usage("--json goes with --list or --queue".into()));
    }
    if given("count-free") {
        wanted.push(("--count-free", Action::CountFree));
    }
    if let Some(name) = text(typed, "release") {
        wanted.push(("--release", Action::Release(name.to_owned())));
    }
    if given("release-all") {
        wanted.push(("--release-all", Action::ReleaseAll));
    }
    if given("show-config") {
        wanted.push(("--show-config", Action::ShowConfig));
    }
    if let Some(file) = text(typed, "monitor") {
        let file = Some(PathBuf::from(file)).filter(|file| !file.as_os_str().is_empty());
        wanted.push(("--monitor", Action::Monitor(file)));
    }
    if let Some(word) = text(typed, "slurm") {
        wanted.push(("--slurm", Action::Slurm(slurm_hook(word)?)));
    }
    match wanted.as_slice() {
        [] => Ok(Action::Print(None)),
        [(_, only)] => Ok(only.clone()),
        [(first, _), (second, _), ..] => {
            Err(usage(format!("{first} and {second} exclude each other")))
        }
    }
}

/// What the words without an option mean: an INDEX, or the directories of `--check`.
fn words(typed: &ArgMatches) -> Result<Option<(&'static str, Action)>, Failure> {
    let words: Vec<&String> = typed.get_many("index").into_iter().flatten().collect();
    if typed.get_flag("check") {
        let directories = words.iter().map(PathBuf::from).collect();
        return Ok(Some(("--check", Action::Check(directories))));
    }
    match words[..] {
        [] => Ok(None),
        [first, ..] if first.parse::<usize>().is_err() => {
            let failure = usage(format!(
                "`{first}` is not an index: 0, 1, ... as getgpu --list shows them"
            ));
            Err(match meant::hint(&words) {
                Some(hint) => failure.hint(hint),
                None => failure,
            })
        }
        [first, second, ..] => Err(usage(format!("{first} and {second}: one INDEX at a time"))),
        [index] => Ok(Some(("INDEX", Action::Print(index.parse().ok())))),
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

/// An option that says how a device is kept or chosen, which has no meaning elsewhere.
fn only_for_printing(typed: &ArgMatches) -> Option<&'static str> {
    let valued = ["for", "hold"]
        .into_iter()
        .find(|name| typed.contains_id(name));
    let flags = || {
        ["no-reserve", "explain"]
            .into_iter()
            .find(|name| typed.get_flag(name))
    };
    valued.or_else(flags)
}

/// A tag is a word that can stand in a command line, a file name and a unit's name.
fn tag_name(name: &str) -> Result<String, Failure> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(name.to_owned());
    }
    Err(usage(format!(
        "--tag {}: expected 1 to 64 characters of A-Z a-z 0-9 . _ -",
        getgpu_common::diag::printable(name)
    )))
}

fn slurm_hook(word: &str) -> Result<Hook, Failure> {
    let known = Hook::ALL.iter().find(|(name, _)| *name == word);
    known.map(|(_, hook)| *hook).ok_or_else(|| {
        let words = Hook::ALL.map(|(name, _)| name).join(", ");
        usage(format!("--slurm {word}: not one of {words}"))
    })
}

fn uid_number(text: &str) -> Result<u32, Failure> {
    // The last number stands for no user at all (setuid(2)).
    text.parse()
        .ok()
        .filter(|uid| *uid != u32::MAX)
        .ok_or_else(|| usage(format!("--uid {text}: not a user id")))
}

impl Options {
    /// Whether nothing but the tag was asked for: then what is reserved under it is printed.
    fn only_the_tag(&self, typed: &ArgMatches) -> bool {
        let kept = ["for", "hold", "uid"]
            .iter()
            .any(|name| typed.contains_id(name));
        let plain = self.action == Action::Print(None) && self.choices.is_empty();
        plain && !kept && !typed.get_flag("no-reserve")
    }

    fn only(action: Action) -> Self {
        Self {
            action,
            choices: Overrides::default(),
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
