//! The options beside `--list` and `--watch`: which devices are shown, and how.

use std::time::Duration;

use clap::ArgMatches;
use getgpu_common::error::Failure;
use getgpu_common::quantity;

use super::table::{FORMATS, LIST_FORMATS};
use super::{Action, Form, Only, usage};

/// The shortest time between two looks of `--watch`.
const OFTEN: Duration = Duration::from_millis(200);

/// The action, with the option that asks for it, if one does. `--list --watch` means the
/// same as `--watch`.
pub(super) fn action(typed: &ArgMatches) -> Result<Option<(&'static str, Action)>, Failure> {
    let given = |name: &str| typed.get_flag(name);
    if let Some(every) = typed.get_one::<String>("watch") {
        let every = quantity::time(every).map_err(|e| usage(format!("--watch: {e}")))?;
        if typed.contains_id("format") || given("json") {
            return Err(usage("--watch draws a table on a terminal".into()));
        }
        let action = Action::Watch(every.max(OFTEN), only(typed));
        return Ok(Some(("--watch", action)));
    }
    if given("list") {
        return Ok(Some(("--list", Action::List(form(typed)?, only(typed)))));
    }
    let alone = ["free", "mine"].into_iter().find(|name| given(name));
    match alone.or_else(|| typed.contains_id("user").then_some("user")) {
        Some(name) => Err(usage(format!("--{name} goes with --list or --watch"))),
        None => Ok(None),
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
            "--format {other} is a format for one device, not for a list"
        ))),
        (Some(other), false) => Err(usage(format!(
            "--format {other}: the formats of a list are {}",
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
