//! What was typed, read by the table and checked: which action it is, and what excludes
//! what beyond that. Every refusal names the option and hints at what would do.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, FromArgMatches};
use getgpu_choose::GrantUse;
use getgpu_cli::{HelpLength, Overrides, flags};
use getgpu_linux::users;
use getgpu_lock::Role;
use getgpu_model::{Failure, reason, word_of};
use nix::unistd::User;

use super::table::{Format, GUIDE, GetgpuArguments, Looking, command, exclusion};
use super::{Action, GetgpuOptions, Keep, Only, meant};
use crate::causes::{GetgpuMisuse, GetgpuUsage};

/// Settings whose options choose, share or wait, which INDEX excludes; the type decides
/// what is counted.
const WITHOUT_INDEX: [&str; 9] = [
    "count",
    "profile",
    "model",
    "prefer_model",
    "min_memory",
    "gpu",
    "policy",
    "share",
    "wait",
];
/// The shortest time between two looks of `--watch`.
const OFTEN: Duration = Duration::from_millis(200);

/// Reads the arguments behind the program's name.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<GetgpuOptions, Failure> {
    let words: Vec<OsString> = std::iter::once("getgpu".into()).chain(arguments).collect();
    let typed = typed(&words)?;
    let text = if typed.common.help {
        GUIDE.text(command(), HelpLength::by(&words))
    } else if typed.common.version {
        format!("getgpu {}\n", env!("CARGO_PKG_VERSION"))
    } else {
        return check(typed);
    };
    Ok(GetgpuOptions {
        action: Action::Text(text),
        ..check(self::typed(&words[..1])?)?
    })
}

fn typed(words: &[OsString]) -> Result<GetgpuArguments, Failure> {
    let matches = command().try_get_matches_from(words).or_else(|error| {
        // --help in front of what is wrong is answered still.
        let before = command().ignore_errors(true).try_get_matches_from(words)?;
        let text = text(&before).ok_or(error)?;
        command().try_get_matches_from(["getgpu".to_owned(), format!("--{text}")])
    });
    let matches = matches.map_err(|error| flags::usage_failure("getgpu", &error))?;
    if let Some(both) = exclusion(&matches).filter(|_| text(&matches).is_none()) {
        let [one, other] = both.map(shown);
        return Err(flags::exclusive("getgpu", &one, &other));
    }
    let typed = GetgpuArguments::from_arg_matches(&matches);
    typed.map_err(|error| flags::usage_failure("getgpu", &error))
}

/// The option that asks for a text, whatever else is typed.
fn text(typed: &ArgMatches) -> Option<&'static str> {
    let is_typed = |id: &&str| typed.value_source(id) == Some(ValueSource::CommandLine);
    ["help", "version"].into_iter().find(is_typed)
}

/// An option as it is typed.
fn shown(id: &str) -> String {
    let command = command();
    let arg = command.get_arguments().find(|arg| arg.get_id() == id);
    let long = arg.and_then(Arg::get_long);
    let short = arg.and_then(Arg::get_short);
    match (long, short) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => "INDEX".to_owned(),
    }
}

fn check(typed: GetgpuArguments) -> Result<GetgpuOptions, Failure> {
    let choices = Overrides::of(typed.choosing.said(), "getgpu")?;
    let mut action = action(&typed, &choices)?;
    if let Some(what) = contradiction(&typed) {
        return Err(GetgpuUsage::Contradiction { what }.into());
    }
    let keeping = typed.keeping;
    let asks = !choices.is_empty() || keeping.reserve_for.is_some() || keeping.uid.is_some();
    let keep = match (keeping.hold, keeping.no_reserve) {
        (Some(process), _) => Keep::Hold(process),
        (None, true) => Keep::No,
        (None, false) => Keep::ForProgram,
    };
    if let Some(name) = keeping.tag.clone()
        && action == Action::Print(None)
        && keep == Keep::ForProgram
        && !asks
    {
        action = Action::Tagged(name);
    }
    Ok(GetgpuOptions {
        action,
        choices,
        grant_use: GrantUse::of_option(typed.choosing.ignore_grant),
        reserve_for: keeping.reserve_for,
        keep,
        tag: keeping.tag,
        role: Role::Reservation,
        uid: keeping.uid,
        gid: None,
        only: only(&typed.looking)?,
        format: format(&typed.looking)?,
        explain: typed.looking.explain,
        columns: typed.looking.columns,
        color: typed.looking.color,
        level: typed.common.level(),
    })
}

/// What contradicts each other beyond what the table says.
fn contradiction(typed: &GetgpuArguments) -> Option<GetgpuMisuse> {
    use GetgpuMisuse as Misuse;
    let looking = &typed.looking;
    let lists = looking.list || looking.watch.is_some();
    let draws = matches!(looking.format, None | Some(Format::Table | Format::Csv));
    let by_index = looking.format == Some(Format::Index);
    let kind = typed.choosing.kind.as_deref();
    let endless = typed.keeping.hold == Some(Some(0));
    #[rustfmt::skip]
    let wrong = [
        (looking.json && !(looking.list || looking.check || looking.queue || looking.report.is_some()), Misuse::JsonAlone),
        (looking.since.is_some() && looking.report.is_none(), Misuse::SinceAlone),
        (!looking.from.is_empty() && !looking.list, Misuse::FromAlone),
        (looking.free && !lists, Misuse::FreeAlone),
        (looking.mine && !lists, Misuse::MineAlone),
        (looking.user.is_some() && !lists, Misuse::UserAlone),
        (!looking.columns.is_empty() && !lists, Misuse::ColumnsAlone),
        (!looking.columns.is_empty() && (looking.json || !draws), Misuse::ColumnsOfJson),
        (by_index && matches!(kind, Some("mig" | "any")), Misuse::IndexOfMig),
        (typed.choosing.share.as_deref() == Some("auto"), Misuse::ShareOfRanks),
        (endless && typed.keeping.reserve_for.is_some(), Misuse::EndlessForProgram),
    ];
    wrong.iter().find(|(is, _)| *is).map(|(_, what)| *what)
}

/// How a device, or with `--list` all of them, are printed.
fn format(looking: &Looking) -> Result<Format, Failure> {
    use Format::{Csv, Json, Prometheus, Table};
    let of_list = matches!(looking.format, Some(Table | Json | Csv | Prometheus));
    let Some(format) = looking.format else {
        return Ok(match (looking.json, looking.list) {
            (true, _) => Json,
            (false, true) => Table,
            (false, false) => Format::Uuid,
        });
    };
    if looking.list == of_list {
        return Ok(format);
    }
    let name = &word_of(&format);
    Err(match looking.list {
        true => GetgpuUsage::NoFormatOfList { name }.into(),
        false => GetgpuUsage::FormatOfList { name }.into(),
    })
}

/// What is to be done: the one action that was asked for, else printing a device.
fn action(typed: &GetgpuArguments, choices: &Overrides) -> Result<Action, Failure> {
    let (looking, keeping, service) = (&typed.looking, &typed.keeping, &typed.service);
    Ok(if looking.check {
        let directories = typed.index.iter().map(PathBuf::from).collect();
        let health = looking.health;
        Action::Check {
            directories,
            health,
        }
    } else if let Some(every) = looking.watch {
        Action::Watch(every.max(OFTEN))
    } else if !looking.from.is_empty() {
        Action::ListFrom(looking.from.clone())
    } else if looking.list {
        Action::List
    } else if looking.queue {
        Action::Queue
    } else if let Some(by) = looking.report {
        let since = looking.since.clone();
        Action::Report { by, since }
    } else if looking.wanted {
        Action::Wanted
    } else if looking.count_free {
        Action::CountFree
    } else if let Some(name) = &keeping.release {
        Action::Release(name.clone())
    } else if keeping.release_all {
        Action::ReleaseAll
    } else if looking.show_config {
        Action::ShowConfig
    } else if let Some(metrics) = &service.monitor {
        Action::Monitor(metrics.clone())
    } else if let Some(hook) = service.slurm {
        Action::Slurm(hook)
    } else {
        Action::Print(index(&typed.index, choices)?)
    })
}

/// The INDEX, which excludes what chooses.
fn index(words: &[String], choices: &Overrides) -> Result<Option<usize>, Failure> {
    let Some(first) = words.first() else {
        return Ok(None);
    };
    let Ok(index) = first.parse() else {
        let remedy = meant::hint(words);
        let remedy = remedy.as_deref().unwrap_or("getgpu --help");
        return Err(GetgpuUsage::NotIndex { first, remedy }.into());
    };
    if let Some(second) = words.get(1) {
        return Err(GetgpuUsage::ManyIndices { first, second }.into());
    }
    let Some(other) = choices.first_of(&WITHOUT_INDEX) else {
        return Ok(Some(index));
    };
    Err(match other {
        "--wait" => GetgpuUsage::IndexAndWait { index }.into(),
        other => GetgpuUsage::IndexAndChoice { index, other }.into(),
    })
}

/// Which devices a listing shows.
fn only(typed: &Looking) -> Result<Vec<Only>, Failure> {
    let free = typed.free.then_some(Only::Free);
    let mine = typed.mine.then(|| of_user(nix::unistd::geteuid().as_raw()));
    let user = typed.user.as_deref().map(user).transpose()?;
    Ok([free, mine, user].into_iter().flatten().collect())
}

/// The user that is meant by a number, or by a name (getpwnam(3)).
fn user(typed: &str) -> Result<Only, Failure> {
    if let Ok(uid) = typed.parse() {
        return Ok(of_user(uid));
    }
    match User::from_name(typed) {
        Ok(Some(user)) => Ok(of_user(user.uid.as_raw())),
        Ok(None) => Err(GetgpuUsage::NoSuchUser { typed }.into()),
        Err(errno) => {
            let why = reason(&errno.into());
            Err(GetgpuUsage::UnknownUser { typed, why }.into())
        }
    }
}

fn of_user(uid: u32) -> Only {
    let name = users::name(uid);
    Only::User { uid, name }
}
