//! What the three places together mean: one of the states that a path can be in, crashes
//! included. Pure: from a [`Seen`] to a [`State`], so that every row of the table is a
//! line of a test.

use std::path::Path;

use crate::inspect::{Entry, Kind, Leads, Seen};
use crate::names::{self, Place};

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A program, not wrapped.
    Plain,
    /// A program, and our link is at `CUDAWRAP_app`: a wrap that did not get to its
    /// exchange, or an undo that did.
    Interrupted,
    /// Both names are one file: the way without exchange, interrupted.
    SameFile,
    /// Our link, and the program beside it.
    Wrapped,
    /// The same, but the cudawrap that the link leads to is gone.
    Vanished,
    /// A newer program lies where the link was.
    Upgraded,
    /// An older program lies where the link was: dpkg diverts to `CUDAWRAP_app`, and has
    /// put a newer one there.
    Superseded,
    /// The path leads to the program at `CUDAWRAP_app` without cudawrap: unwrapped by
    /// hand.
    Bypassed,
    /// The program is at `CUDAWRAP_app`, and nothing at the path.
    Orphan,
    /// A link of ours without a program beside it (a directory of links).
    LinkOnly,
    /// A link to another link that leads to cudawrap, such as a wrapped path.
    Through,
    /// Links of ours, and no program at all.
    Lost,
    /// A link to the wrapper of migtools.
    Migtools,
    /// A program, and something else has the name `CUDAWRAP_app`.
    InTheWay,
    /// A directory, a device, a link that leads nowhere.
    NotAProgram,
    Missing,
}

/// What lies at `.CUDAWRAP_app~`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    None,
    /// A link of ours, a second name of the program, or the program that an upgrade
    /// superseded: goes away.
    Ours,
    /// Something else: stays.
    Foreign,
}

/// The state that `seen` shows.
pub fn state(seen: &Seen) -> State {
    let (app, hidden) = (&seen.app, &seen.hidden);
    match app.kind {
        Kind::Absent if hidden.is_program() => State::Orphan,
        Kind::Absent if hidden.is_ours() => State::Lost,
        Kind::Absent => State::Missing,
        Kind::Directory | Kind::Special | Kind::Link(Leads::Elsewhere) => State::NotAProgram,
        Kind::Link(Leads::Migtools) => State::Migtools,
        Kind::Link(Leads::Cudawrap | Leads::Vanished) => linked(seen),
        Kind::File | Kind::Link(Leads::Program | Leads::Through) => plain(seen),
    }
}

fn plain(seen: &Seen) -> State {
    let (app, hidden) = (&seen.app, &seen.hidden);
    // Another name of the very file at CUDAWRAP_app is no newer program either.
    let same_file = hidden.kind == Kind::File && app.leads_to == hidden.id;
    if hidden.kind == Kind::Absent {
        if app.through.is_some() {
            State::Through
        } else {
            State::Plain
        }
    } else if hidden.is_ours() {
        State::Interrupted
    } else if hidden.id == app.id {
        State::SameFile
    } else if passes(&seen.reach, Place::Hidden) || same_file {
        State::Bypassed
    } else if hidden.is_program() && hidden.runs {
        let superseded = seen.diverted.is_some()
            && hidden.changed > app.changed
            && !passes(&seen.hidden_reach, Place::App);
        if superseded {
            State::Superseded
        } else {
            State::Upgraded
        }
    } else if seen.reach.is_some() && is_stale(hidden) {
        // A link that leads nowhere any more: the upgrade has removed the older version
        // too.
        State::Upgraded
    } else {
        State::InTheWay
    }
}

/// A link that leads nowhere, and not to a name beside it that is ours.
fn is_stale(entry: &Entry) -> bool {
    let name = entry
        .text
        .as_deref()
        .and_then(|text| Path::new(text).file_name());
    entry.kind == Kind::Link(Leads::Elsewhere)
        && entry.leads_to.is_none()
        && name.is_some_and(|name| names::original(name).is_none())
}

fn linked(seen: &Seen) -> State {
    match seen.hidden.kind {
        Kind::Absent => State::LinkOnly,
        Kind::File | Kind::Link(Leads::Program | Leads::Through | Leads::Elsewhere) => {
            if seen.app.kind == Kind::Link(Leads::Vanished) {
                State::Vanished
            } else {
                State::Wrapped
            }
        }
        _ => State::Lost,
    }
}

fn passes(reach: &Option<Vec<Place>>, place: Place) -> bool {
    reach.as_ref().is_some_and(|places| places.contains(&place))
}

/// What `.CUDAWRAP_app~` is in the state that `seen` shows.
pub fn leftover(seen: &Seen) -> Leftover {
    let tmp = &seen.tmp;
    let needed = passes(&seen.reach, Place::Tmp) || passes(&seen.hidden_reach, Place::Tmp);
    // Or a link to what has one of the two.
    let second_name = [seen.app.id, seen.hidden.id]
        .iter()
        .any(|id| id.is_some() && (*id == tmp.id || *id == tmp.leads_to));
    // A file of its own there is the superseded program only while a link and a newer
    // program are at the two other names, and the path runs.
    let superseded = tmp.is_program()
        && seen.reach.is_some()
        && matches!(
            state(seen),
            State::Interrupted | State::Wrapped | State::Vanished
        );
    match tmp.kind {
        Kind::Absent => Leftover::None,
        _ if !needed && (tmp.is_ours() || second_name || superseded) => Leftover::Ours,
        _ => Leftover::Foreign,
    }
}
