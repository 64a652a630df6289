//! The changes that a plan is made of, and the sequences of them that keep the path
//! running: with an exchange of two names where the file system has it (renameat2(2)), with
//! hard links and renames where not.

use std::ffi::OsStr;

use crate::inspect::Seen;
use crate::names::Place::{self, App, Hidden, Tmp};

/// Whether two names can change places in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Yes: renameat2 with RENAME_EXCHANGE.
    Exchange,
    /// No: hard links, and renaming over.
    Replace,
}

/// One change in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new link to cudawrap.
    Link(Place),
    /// A second name for the first one's file.
    Copy(Place, Place),
    /// The two names change places.
    Swap(Place, Place),
    /// Renamed; the new name must be free.
    Move(Place, Place),
    /// Renamed over what has the new name.
    Over(Place, Place),
    /// The name goes away.
    Drop(Place),
    /// dpkg writes `CUDAWRAP_app` from now on where it would write the path.
    Divert,
    /// dpkg writes the path itself again.
    Undivert,
    /// What was done is on the disk before the next step.
    Sync,
}

/// Plain: our link beside the program, then both change places.
pub fn first(method: Method) -> Vec<Step> {
    match method {
        Method::Exchange => vec![Step::Link(Hidden), Step::Sync, Step::Swap(App, Hidden)],
        Method::Replace => [vec![Step::Copy(App, Hidden), Step::Sync], relink(method)].concat(),
    }
}

/// Interrupted before the exchange; a link that leads elsewhere than wanted is made anew
/// first.
pub fn half(seen: &Seen, method: Method, wrapper: &OsStr) -> Vec<Step> {
    let usable = seen.hidden.runs && seen.hidden.text.as_deref() == Some(wrapper);
    match method {
        Method::Exchange if usable => vec![Step::Swap(App, Hidden)],
        Method::Exchange => {
            vec![
                Step::Link(Tmp),
                Step::Swap(Tmp, Hidden),
                Step::Drop(Tmp),
                Step::Sync,
                Step::Swap(App, Hidden),
            ]
        }
        Method::Replace => renew(method),
    }
}

/// A new link in the place of what the path is now, which is an older link or a second
/// name of the program.
pub fn relink(method: Method) -> Vec<Step> {
    match method {
        Method::Exchange => vec![
            Step::Link(Tmp),
            Step::Sync,
            Step::Swap(Tmp, App),
            Step::Sync,
            Step::Drop(Tmp),
        ],
        Method::Replace => vec![Step::Link(Tmp), Step::Over(Tmp, App)],
    }
}

/// Upgraded: the new program takes the place of the old one, which goes last.
pub fn renew(method: Method) -> Vec<Step> {
    match method {
        Method::Exchange => vec![
            Step::Link(Tmp),
            Step::Swap(Tmp, Hidden),
            Step::Sync,
            Step::Swap(App, Hidden),
            Step::Sync,
            Step::Drop(Tmp),
        ],
        Method::Replace => [
            vec![Step::Copy(App, Tmp), Step::Over(Tmp, Hidden), Step::Sync],
            relink(method),
        ]
        .concat(),
    }
}

/// Removes a name that a package manager may write to at the same moment: first out of
/// its way, then looked at, then gone.
pub fn discard(place: Place, method: Method) -> Vec<Step> {
    match method {
        Method::Exchange => vec![Step::Move(place, Tmp), Step::Drop(Tmp)],
        Method::Replace => vec![Step::Drop(place)],
    }
}

pub fn names_tmp(step: Step) -> bool {
    match step {
        Step::Link(a) | Step::Drop(a) => a == Tmp,
        Step::Copy(a, b) | Step::Swap(a, b) | Step::Move(a, b) | Step::Over(a, b) => {
            a == Tmp || b == Tmp
        }
        Step::Divert | Step::Undivert | Step::Sync => false,
    }
}
