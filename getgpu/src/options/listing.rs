//! The options beside `--list` and `--watch`: which devices are shown, and how.

use std::time::Duration;

use getgpu_common::error::Failure;
use getgpu_common::inventory::Gauge;
use getgpu_common::quantity;

use super::table::{FORMATS, LIST_FORMATS, Looking};
use super::{Action, Form, Only, one_of, usage};
use clap::ValueEnum;

/// The shortest time between two looks of `--watch`.
const OFTEN: Duration = Duration::from_millis(200);

/// The action, with the option that asks for it, if one does. `--list --watch` means the
/// same as `--watch`.
pub(super) fn action(typed: &Looking) -> Result<Option<(&'static str, Action)>, Failure> {
    if let Some(every) = &typed.watch {
        let every = quantity::time(every).map_err(|e| usage(format!("--watch: {e}")))?;
        if typed.format.is_some() || typed.json {
            return Err(usage("--watch draws a table on a terminal".into()));
        }
        let action = Action::Watch(every.max(OFTEN));
        return Ok(Some(("--watch", action)));
    }
    if typed.list {
        return Ok(Some(("--list", Action::List)));
    }
    let alone = [
        (typed.free, "--free"),
        (typed.mine, "--mine"),
        (typed.user.is_some(), "--user"),
    ];
    match alone.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(usage(format!("{name} goes with --list or --watch"))),
        None => Ok(None),
    }
}

/// The columns that are shown only if they are asked for.
pub(super) fn columns(typed: &Looking) -> Result<Vec<Gauge>, Failure> {
    if !typed.columns.is_empty() && !typed.list && typed.watch.is_none() {
        return Err(usage("--columns goes with --list or --watch".into()));
    }
    let has_columns = matches!(typed.format.as_deref(), None | Some("table" | "csv"));
    if !typed.columns.is_empty() && (typed.json || !has_columns) {
        return Err(usage("--columns goes with a table or CSV".into()));
    }
    let columns = typed.columns.iter();
    columns.map(|word| one_of("--columns", word)).collect()
}

/// How the listing is shown.
pub(super) fn form(typed: &Looking) -> Result<Form, Failure> {
    if !typed.list {
        return Ok(Form::Table);
    }
    match (typed.format.as_deref(), typed.json) {
        (None, true) => Ok(Form::Json),
        (None, false) => Ok(Form::Table),
        (Some(other), true) if other != "json" => Err(usage(format!(
            "--json and --format {other} exclude each other"
        ))),
        (Some(other), _) if FORMATS.contains(&other) => Err(usage(format!(
            "--format {other} is a format for one device, not for a list"
        ))),
        (Some(other), _) => Form::from_str(other, false).map_err(|_| {
            let formats = LIST_FORMATS.join(", ");
            usage(format!(
                "--format {other}: the formats of a list are {formats}"
            ))
        }),
    }
}

/// Which devices the listing shows.
pub(super) fn only(typed: &Looking) -> Vec<Only> {
    let free = typed.free.then_some(Only::Free);
    let mine = typed.mine.then_some(Only::Mine);
    let user = typed.user.clone().map(Only::User);
    [free, mine, user].into_iter().flatten().collect()
}
