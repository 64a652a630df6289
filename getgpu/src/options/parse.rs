//! What was typed, read by the table and checked: which action it is, and what excludes
//! what. Every refusal names the option and hints at what would do.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::flags;
use getgpu_common::help_text::Asked;
use getgpu_common::overrides::Overrides;
use getgpu_common::quantity;

use super::table::{CALLER, FORMATS, GUIDE, LIST_FORMATS, command, table};
use super::{Action, Form, Format, Keep, Only, Options};
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
    let typed = command().try_get_matches_from(&words);
    let typed = typed.map_err(|error| flags::usage_failure("getgpu", &error))?;
    if typed.get_flag("help") {
        let text = GUIDE.text(command(), Asked::by(&words));
        return Ok(Options::only(Action::Text(text)));
    }
    check(&typed)
}

fn check(typed: &ArgMatches) -> Result<Options, Failure> {
    let given = |name: &str| typed.get_flag(name);
    let text = |name: &str| typed.get_one::<String>(name).map(String::as_str);
    if given("version") {
        return Ok(Options::only(Action::Text(format!(
            "getgpu {}\n",
            env!("CARGO_PKG_VERSION")
        ))));
    }
    let format = match text("format") {
        None | Some("uuid") => Format::Uuid,
        Some("index") => Format::Index,
        Some("env") => Format::Env,
        Some("task") => Format::Task,
        Some(_) if given("list") => Format::Uuid,
        // `json` is what other programs take here.
        Some(other) if LIST_FORMATS.contains(&other) && other != "json" => {
            return Err(usage(format!("--format {other} goes with --list")));
        }
        Some(other) => {
            return Err(usage(format!(
                "--format {other}: not one of {}",
                FORMATS.join(", ")
            )));
        }
    };
    let choices = Overrides::of(typed, "getgpu")?;
    if format == Format::Index && matches!(text("type"), Some("mig" | "any")) {
        return Err(usage(
            "--format index names whole GPUs only; MIG devices have no CUDA index".into(),
        ));
    }
    if text("share") == Some("auto") {
        return Err(usage(
            "--share auto: divides a grant among ranks, which cudawrap does".into(),
        ));
    }
    let tag = text("tag").map(tag_name).transpose()?;
    let unless_tags = typed.get_many::<String>("unless-tag");
    let unless_tags: Vec<String> = unless_tags
        .into_iter()
        .flatten()
        .map(|name| tag_name(name))
        .collect::<Result<_, _>>()?;
    let time = |name: &str| {
        let read = |t| quantity::time(t).map_err(|e| usage(format!("--{name}: {e}")));
        text(name).map(read).transpose()
    };
    let uid = text("uid").map(uid_number).transpose()?;
    let mut action = action(typed)?;
    let tagged = tag.is_some() || uid.is_some() || !unless_tags.is_empty();
    if tagged && !matches!(action, Action::Print(_)) {
        return Err(usage(
            "--tag, --unless-tag and --uid go with printing a device, and nothing else".into(),
        ));
    }
    if let (Some(name), true) = (&tag, only_the_tag(typed, &choices, &action)) {
        action = Action::Tagged(name.clone());
    }
    if let (Action::Print(Some(index)), Some(other)) = (&action, choices.first_of(&WITHOUT_INDEX)) {
        let failure = usage(format!("INDEX {index} and {other} exclude each other"));
        return Err(if matches!(other, "--wait" | "-w") {
            failure.hint(format!(
                "to wait at most {index} seconds for any device: getgpu --wait={index}"
            ))
        } else {
            failure
        });
    }
    if let (false, Some(other)) = (
        matches!(
            action,
            Action::Print(_) | Action::ShowConfig | Action::Tagged(_)
        ),
        choices.first_of(&["wait", "count", "policy"]),
    ) {
        return Err(usage(format!(
            "{other} goes with printing a device, and nothing else"
        )));
    }
    let printing = matches!(
        action,
        Action::Print(_) | Action::Tagged(_) | Action::ShowConfig
    );
    if let (false, Some(other)) = (printing, only_for_printing(typed)) {
        return Err(usage(format!(
            "--{other} goes with printing a device, and nothing else"
        )));
    }
    let options = Options {
        action,
        choices,
        ignore_grant: given("ignore-grant"),
        reserve_for: time("for")?,
        keep: keep(text("hold"), given("no-reserve"))?,
        tag,
        unless_tags,
        timeout: time("timeout")?,
        uid,
        format,
        explain: given("explain"),
        level: flags::level(typed),
    };
    if options.keep != Keep::ForProgram && options.reserve_for.is_some() {
        return Err(usage(
            "--for has no meaning with --hold or --no-reserve".into(),
        ));
    }
    if options.keep == Keep::No && (options.tag.is_some() || options.uid.is_some()) {
        return Err(usage(
            "--no-reserve reserves nothing that could have a tag or a user".into(),
        ));
    }
    Ok(options)
}

fn action(typed: &ArgMatches) -> Result<Action, Failure> {
    let given = |name: &str| typed.get_flag(name);
    let mut wanted: Vec<(&str, Action)> = Vec::new();
    let words: Vec<&String> = typed.get_many("index").into_iter().flatten().collect();
    if given("check") {
        wanted.push((
            "--check",
            Action::Check(words.iter().map(PathBuf::from).collect()),
        ));
    } else if let [first, second, ..] = words[..] {
        return Err(usage(format!("{first} and {second}: one INDEX at a time")));
    } else if let [index] = words[..] {
        let number = index.parse().map_err(|_| {
            let failure = usage(format!(
                "`{index}` is not an index: 0, 1, ... as getgpu --list shows them"
            ));
            // `getgpu list`, as subcommands of other programs are typed.
            if table().any(|flag| flag.long == index.as_str()) {
                failure.hint(format!("did you mean getgpu --{index}?"))
            } else {
                failure
            }
        })?;
        wanted.push(("INDEX", Action::Print(Some(number))));
    }
    if let Some(every) = typed.get_one::<String>("watch") {
        let every = quantity::time(every).map_err(|e| usage(format!("--watch: {e}")))?;
        if typed.contains_id("format") || given("json") {
            return Err(usage("--watch draws a table on a terminal".into()));
        }
        if typed.contains_id("timeout") {
            return Err(usage(
                "--watch ends when you press q: it has no --timeout".into(),
            ));
        }
        // `--list --watch` means the same.
        let every = every.max(Duration::from_millis(200));
        wanted.push(("--watch", Action::Watch(every, only(typed))));
    } else if given("list") {
        wanted.push(("--list", Action::List(form(typed)?, only(typed))));
    } else if let Some(name) = ["free", "mine"].into_iter().find(|name| given(name)) {
        return Err(usage(format!("--{name} goes with --list or --watch")));
    } else if typed.contains_id("user") {
        return Err(usage("--user goes with --list or --watch".into()));
    }
    if given("queue") {
        let json = given("json");
        wanted.push(("--queue", Action::Queue { json }));
    } else if given("json") && !given("list") {
        return Err(usage("--json goes with --list or --queue".into()));
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
        [(first, _), (second, _), ..] => {
            Err(usage(format!("{first} and {second} exclude each other")))
        }
    }
}

/// How the listing is shown.
fn form(typed: &ArgMatches) -> Result<Form, Failure> {
    let format = typed.get_one::<String>("format").map(String::as_str);
    match (format, typed.get_flag("json")) {
        (None | Some("json"), true) | (Some("json"), false) => Ok(Form::Json),
        (Some(other), true) => Err(usage(format!(
            "--json and --format {other} exclude each other"
        ))),
        (None | Some("table"), false) => Ok(Form::Table),
        (Some("csv"), false) => Ok(Form::Csv),
        (Some("prometheus"), false) => Ok(Form::Prometheus),
        (Some(other), false) if FORMATS.contains(&other) => Err(usage(format!(
            "--format {other} is how a device is printed, not a list"
        ))),
        (Some(other), false) => Err(usage(format!(
            "--format {other}: a list is one of {}",
            LIST_FORMATS.join(", ")
        ))),
    }
}

/// Which devices the listing shows.
fn only(typed: &ArgMatches) -> Vec<Only> {
    let user = typed.get_one::<String>("user").cloned().map(Only::User);
    let given = |name, only| typed.get_flag(name).then_some(only);
    [given("free", Only::Free), given("mine", Only::Mine), user]
        .into_iter()
        .flatten()
        .collect()
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

/// Whether nothing but the tag was asked for: then what is reserved under it is printed.
fn only_the_tag(typed: &ArgMatches, choices: &Overrides, action: &Action) -> bool {
    let kept = ["for", "hold", "uid"]
        .iter()
        .any(|name| typed.contains_id(name));
    *action == Action::Print(None) && choices.is_empty() && !kept && !typed.get_flag("no-reserve")
}

/// A tag is a word that can stand in a command line, a file name and a unit's name.
fn tag_name(name: &str) -> Result<String, Failure> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(name.to_owned());
    }
    Err(usage(format!(
        "--tag {}: not 1 to 64 of A-Z a-z 0-9 . _ -",
        getgpu_common::diag::printable(name)
    )))
}

fn uid_number(text: &str) -> Result<u32, Failure> {
    // The last number stands for no user at all (setuid(2)).
    text.parse()
        .ok()
        .filter(|uid| *uid != u32::MAX)
        .ok_or_else(|| usage(format!("--uid {text}: not a user's number")))
}

fn usage(message: String) -> Failure {
    Failure::new(Kind::Usage, message).hint("getgpu --help")
}

impl Options {
    fn only(action: Action) -> Self {
        Self {
            action,
            choices: Overrides::default(),
            ignore_grant: false,
            reserve_for: None,
            keep: Keep::ForProgram,
            tag: None,
            unless_tags: Vec::new(),
            timeout: None,
            uid: None,
            format: Format::Uuid,
            explain: false,
            level: Level::Normal,
        }
    }
}
