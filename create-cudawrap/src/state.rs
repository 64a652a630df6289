//! What the places of a path together mean: one of eight states, in which every stop of
//! create-cudawrap leaves it too. Pure: from a [`PathSnapshot`] to a [`PathState`].

use getgpu_linux::PREFIX;

use crate::executable::Form;
use crate::inspect::{EntryKind, Leads, PathSnapshot};
use crate::names::WRAPPER;

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    Missing,
    /// A program that is not wrapped, or a link that leads to a wrapped path.
    Plain,
    /// The path and `CUDAWRAP_app` are one program: a wrap that was interrupted, or a path
    /// that was unwrapped by hand.
    Begun,
    /// Our link, with the program beside it or, in a directory of links, behind it in PATH.
    Wrapped,
    /// Another program than `CUDAWRAP_app` has taken the link's place.
    Upgraded,
    /// A copy of cudawrap has taken the link's place.
    Copied,
    /// A link to the wrapper of migtools.
    Migtools,
    /// Something that create-cudawrap leaves alone: [`oddity`] says what.
    Unclear,
}

/// The state that `seen` shows.
pub fn state(seen: &PathSnapshot) -> PathState {
    let (app, hidden) = (&seen.app, &seen.hidden);
    match app.kind {
        EntryKind::Absent if hidden.kind == EntryKind::Absent => PathState::Missing,
        EntryKind::Absent
        | EntryKind::Directory
        | EntryKind::Special
        | EntryKind::Link(Leads::Elsewhere) => PathState::Unclear,
        EntryKind::Link(Leads::Migtools) => PathState::Migtools,
        EntryKind::Link(Leads::Cudawrap | Leads::Vanished) => match hidden.kind {
            EntryKind::Absent | EntryKind::File => PathState::Wrapped,
            EntryKind::Link(Leads::Program | Leads::Elsewhere) => PathState::Wrapped,
            _ => PathState::Unclear,
        },
        EntryKind::File | EntryKind::Link(Leads::Program) => program(seen),
    }
}

fn program(seen: &PathSnapshot) -> PathState {
    let (app, hidden) = (&seen.app, &seen.hidden);
    let has_program = hidden.is_program() && hidden.runs;
    // The upgrade of a link may have removed the older version that CUDAWRAP_app leads to.
    let stale = hidden.kind == EntryKind::Link(Leads::Elsewhere) && hidden.leads_to.is_none();
    let is_one_program = app.id == hidden.id || app.leads_to == hidden.id || seen.reaches_hidden;
    if hidden.kind == EntryKind::Absent {
        PathState::Plain
    } else if is_one_program {
        // What leads to CUDAWRAP_app through another wrapped path would lead in a circle.
        if app.through.is_some() && app.id != hidden.id {
            PathState::Unclear
        } else {
            PathState::Begun
        }
    } else if seen.form == Some(Form::Own(WRAPPER)) && has_program {
        PathState::Copied
    } else if app.runs && seen.form.and_then(Form::fault).is_none() && (has_program || stale) {
        PathState::Upgraded
    } else {
        PathState::Unclear
    }
}

/// What is unusual at a path, in words that follow "is"; none at a program and at our link.
pub fn oddity(seen: &PathSnapshot) -> Option<String> {
    let (app, hidden) = (&seen.app, &seen.hidden);
    let form = seen.form.filter(|_| hidden.kind != EntryKind::Absent);
    let what = match app.kind {
        EntryKind::Absent => "missing".to_owned(),
        EntryKind::Directory => "a directory".to_owned(),
        EntryKind::Special => "not a program".to_owned(),
        EntryKind::Link(Leads::Elsewhere) if app.leads_to.is_none() => {
            format!(
                "a link that leads to no file ({})",
                app.text.clone().unwrap_or_default().to_string_lossy()
            )
        }
        EntryKind::Link(Leads::Elsewhere) => "a link that leads to no program".to_owned(),
        EntryKind::Link(Leads::Cudawrap | Leads::Vanished) if hidden.kind != EntryKind::Absent => {
            return (state(seen) == PathState::Unclear)
                .then(|| "a link to cudawrap, but its program does not exist".to_owned());
        }
        _ if !app.runs && app.is_program() => "not executable".to_owned(),
        _ => form?.fault()?.to_owned(),
    };
    let program = hidden.is_program().then(|| {
        let app = app.runs && form == Some(Form::ScriptOfWrapped);
        let note = if app { ", so not a newer program" } else { "" };
        format!("{note}; the program is {PREFIX}name beside it")
    });
    Some(what + &program.unwrap_or_default())
}

/// Whether `.CUDAWRAP_app~` is what an interrupted run left: a link to cudawrap or a
/// second name of the program, which no other name needs.
pub fn has_leftover(seen: &PathSnapshot) -> bool {
    let tmp = &seen.tmp;
    let second_name = tmp.id == seen.app.id || tmp.id == seen.hidden.id;
    tmp.kind != EntryKind::Absent && !seen.tmp_in_use && (tmp.is_ours() || second_name)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
