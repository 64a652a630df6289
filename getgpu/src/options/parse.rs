//! What was typed, read by the table and checked: which action it is, and what excludes
//! what. Every refusal names the option and hints at what would do.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::FromArgMatches;
use getgpu_common::error::Failure;
use getgpu_common::flags;
use getgpu_common::help_text::Asked;
use getgpu_common::overrides::Overrides;
use getgpu_common::quantity;

use super::table::{CALLER, GUIDE, Keeping, LIST_FORMATS, Looking, Typed, command};
use super::{Action, Color, Format, Keep, Options, listing, meant, one_of, usage};

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
    let typed = typed(&words)?;
    let text = if typed.common.help {
        GUIDE.text(command(), Asked::by(&words))
    } else if typed.common.version {
        format!("getgpu {}\n", env!("CARGO_PKG_VERSION"))
    } else {
        return check(&typed);
    };
    Ok(Options {
        action: Action::Text(text),
        ..check(&self::typed(&words[..1])?)?
    })
}

fn typed(words: &[OsString]) -> Result<Typed, Failure> {
    let typed = command().try_get_matches_from(words);
    let typed = typed.and_then(|matches| Typed::from_arg_matches(&matches));
    typed.map_err(|error| flags::usage_failure("getgpu", &error))
}

fn check(typed: &Typed) -> Result<Options, Failure> {
    let Keeping {
        reserve_for,
        hold,
        tag,
        uid,
        no_reserve,
        ..
    } = &typed.keeping;
    let mut options = Options {
        format: format(&typed.looking)?,
        choices: Overrides::of(&typed.choosing, "getgpu")?,
        tag: tag.as_deref().map(tag_name).transpose()?,
        uid: uid.as_deref().map(uid_number).transpose()?,
        gid: None,
        reserve_for: reserve_for
            .as_ref()
            .map(|text| quantity::time(text).map_err(|e| usage(format!("--for: {e}"))))
            .transpose()?,
        keep: keep(hold.as_deref(), *no_reserve)?,
        action: action(typed)?,
        ignore_grant: typed.choosing.ignore_grant,
        explain: typed.looking.explain,
        form: listing::form(&typed.looking)?,
        only: listing::only(&typed.looking),
        columns: listing::columns(&typed.looking)?,
        color: match &typed.looking.color {
            Some(word) => one_of("--color", word)?,
            None => Color::Auto,
        },
        level: typed.common.level(),
    };
    contradiction(typed, &options)?;
    if let (Some(name), true) = (&options.tag, options.only_the_tag(&typed.keeping)) {
        options.action = Action::Tagged(name.clone());
    }
    printing_alone(typed, &options)?;
    Ok(options)
}

/// How a device is printed.
fn format(looking: &Looking) -> Result<Format, Failure> {
    match looking.format.as_deref() {
        None => Ok(Format::Uuid),
        Some(_) if looking.list => Ok(Format::Uuid),
        // `json` is what other programs take here.
        Some(other) if LIST_FORMATS.contains(&other) && other != "json" => {
            Err(usage(format!("--format {other} goes with --list")))
        }
        Some(word) => one_of("--format", word),
    }
}

/// Refuses values and options that contradict each other whatever is to be done.
fn contradiction(typed: &Typed, options: &Options) -> Result<(), Failure> {
    let Options {
        keep,
        format,
        tag,
        uid,
        ..
    } = options;
    let refused = if *format == Format::Index
        && matches!(typed.choosing.kind.as_deref(), Some("mig" | "any"))
    {
        "--format index works for whole GPUs only: MIG devices have no CUDA index"
    } else if typed.choosing.share.as_deref() == Some("auto") {
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
fn printing_alone(typed: &Typed, options: &Options) -> Result<(), Failure> {
    let Options {
        action, choices, ..
    } = options;
    if let (Action::Print(Some(index)), Some(other)) = (action, choices.first_of(&WITHOUT_INDEX)) {
        let failure = usage(format!("INDEX {index} and {other} exclude each other"));
        return Err(if matches!(other, "--wait" | "-w") {
            failure.hint(format!(
                "to wait at most {index} s for any device: getgpu --wait={index}"
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
    let other = choices
        .first_of(&["wait", "count", "policy"])
        .map(str::to_owned);
    let other = other.or_else(|| only_for_printing(typed).map(str::to_owned));
    match other.filter(|_| !prints) {
        Some(other) => Err(usage(format!(
            "{other} can only be used when a device is printed"
        ))),
        None => Ok(()),
    }
}

/// What is to be done: the one action that was asked for, else printing a device.
fn action(typed: &Typed) -> Result<Action, Failure> {
    let (looking, keeping, service) = (&typed.looking, &typed.keeping, &typed.service);
    let json = looking.json;
    if json && !looking.list && !looking.check && !looking.queue {
        return Err(usage("--json goes with --list, --queue or --check".into()));
    }
    let hook = service.slurm.as_ref();
    let hook = hook.map(|word| one_of("--slurm", word)).transpose()?;
    let monitor = service.monitor.as_ref();
    let monitor = monitor.map(|file| (!file.is_empty()).then(|| PathBuf::from(file)));
    let release = keeping.release.clone().map(Action::Release);
    let wanted = [
        words(typed)?,
        listing::action(looking)?,
        looking.queue.then_some(("--queue", Action::Queue { json })),
        looking
            .count_free
            .then_some(("--count-free", Action::CountFree)),
        release.map(|action| ("--release", action)),
        keeping
            .release_all
            .then_some(("--release-all", Action::ReleaseAll)),
        looking
            .show_config
            .then_some(("--show-config", Action::ShowConfig)),
        monitor.map(|file| ("--monitor", Action::Monitor(file))),
        hook.map(|hook| ("--slurm", Action::Slurm(hook))),
    ];
    let wanted: Vec<(&str, Action)> = wanted.into_iter().flatten().collect();
    match wanted.as_slice() {
        [] => Ok(Action::Print(None)),
        [(_, only)] => Ok(only.clone()),
        [(first, _), (second, _), ..] => {
            Err(usage(format!("{first} and {second} exclude each other")))
        }
    }
}

/// What the words without an option mean: an INDEX, or the directories of `--check`.
fn words(typed: &Typed) -> Result<Option<(&'static str, Action)>, Failure> {
    let words: Vec<&String> = typed.index.iter().collect();
    if typed.looking.check {
        let directories = words.iter().map(PathBuf::from).collect();
        let json = typed.looking.json;
        return Ok(Some(("--check", Action::Check { directories, json })));
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
fn only_for_printing(typed: &Typed) -> Option<&'static str> {
    let keeping = &typed.keeping;
    let given = [
        (keeping.reserve_for.is_some(), "--for"),
        (keeping.hold.is_some(), "--hold"),
        (keeping.no_reserve, "--no-reserve"),
        (typed.looking.explain, "--explain"),
    ];
    given
        .iter()
        .find(|(given, _)| *given)
        .map(|(_, name)| *name)
}

/// A tag is a word that can stand in a command line, a file name and a unit's name.
fn tag_name(name: &str) -> Result<String, Failure> {
    if (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    {
        return Ok(name.to_owned());
    }
    Err(usage(format!(
        "--tag {}: expected 1 to 64 characters of A-Z a-z 0-9 . _ -",
        getgpu_common::diag::printable(name)
    )))
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
    fn only_the_tag(&self, typed: &Keeping) -> bool {
        let kept = typed.reserve_for.is_some() || typed.hold.is_some() || typed.uid.is_some();
        let plain = self.action == Action::Print(None) && self.choices.is_empty();
        plain && !kept && !typed.no_reserve
    }
}
