//! What has to be done to get from a state to the one that was asked for, as a list of
//! single steps. Pure: after every step, and so after a crash at any of them, the path
//! runs; the tests walk through all of them.

use getgpu_common::error::Failure;

use crate::impossible::{hop, hopeless, in_the_way, lost, migtools, refused};
use crate::inspect::Seen;
use crate::names::Place::{App, Former, Hidden, Tmp};
use crate::state::{Leftover, State, leftover, state};
pub use crate::steps::{Method, Step};
use crate::steps::{discard, first, half, names_tmp, relink, renew};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The path shall start through cudawrap.
    Wrap,
    /// The program shall be back under its name.
    Undo,
    /// What an upgrade or a move has broken shall work again.
    Repair,
}

/// The line when all steps are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is wrapped now.
    Wrapped,
    /// It was wrapped before.
    AlreadyWrapped,
    /// A link to cudawrap is in the directory of links now.
    Linked,
    /// The link without a program beside it does what it shall.
    AlreadyLinked,
    /// The program is back.
    Undone,
    /// The link without a program beside it is gone.
    LinkRemoved,
    /// It was not wrapped.
    NotWrapped,
    /// The newer program is wrapped, the older one gone.
    Renewed,
    /// What migtools wrapped is wrapped by us.
    Adopted,
    /// The link leads to cudawrap again.
    Repointed,
    /// It leads to a link that leads to cudawrap.
    AlreadyThrough,
    /// It is not wrapped, and dpkg writes it under its own name again.
    Undiverted,
    /// Nothing needs repair.
    Healthy,
}

/// The steps, and what they lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// When they are done.
    pub outcome: Outcome,
}

/// What is asked for, apart from the path.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What the user wants.
    pub goal: Goal,
    /// How names can be exchanged.
    pub method: Method,
    /// Where links of ours shall lead.
    pub wrapper: &'a std::ffi::OsStr,
    /// Whether the user named that place: then a repair leads sound links there too.
    pub named: bool,
    /// Whether dpkg shall divert what is wrapped.
    pub divert: bool,
}

/// The steps for `request` in the state that `seen` shows, or why there are none.
pub fn plan(seen: &Seen, request: &Request) -> Result<Plan, Failure> {
    let now = state(seen);
    let (mut steps, outcome) = match request.goal {
        Goal::Wrap => wrap(seen, now, request)?,
        Goal::Repair => repair(seen, now, request)?,
        Goal::Undo => undo(seen, now, request.method)?,
    };
    let uses_tmp = steps.iter().any(|step| names_tmp(*step));
    match leftover(seen) {
        // The program that a leftover may be is only dropped where another one is in
        // place: `leftover` sees to that.
        Leftover::Ours => steps.insert(0, Step::Drop(Tmp)),
        Leftover::Foreign if uses_tmp => {
            return Err(refused("the file .CUDAWRAP_name~ beside it is in the way")
                .hint("find out what it is, and move it away"));
        }
        Leftover::None | Leftover::Foreign => {}
    }
    let outcome = divert(seen, request, &mut steps, outcome);
    if !steps.is_empty() {
        steps.push(Step::Sync);
    }
    Ok(Plan { steps, outcome })
}

/// A diversion comes before the link and goes before the link does. An upgrade that lands
/// between two of these steps, or after a crash there, leaves either [`State::Upgraded`]
/// or [`State::Superseded`], and both know which of the programs is the newer one.
fn divert(seen: &Seen, request: &Request, steps: &mut Vec<Step>, outcome: Outcome) -> Outcome {
    let wrapped = matches!(
        outcome,
        Outcome::Wrapped
            | Outcome::AlreadyWrapped
            | Outcome::Renewed
            | Outcome::Adopted
            | Outcome::Repointed
    );
    let unwrapped = matches!(
        state(seen),
        State::Plain | State::Through | State::NotAProgram | State::Missing
    );
    match (request.goal, seen.diverted.is_some()) {
        (Goal::Wrap, false) if request.divert && wrapped => {
            // First, so that an upgrade never lands on the link; but behind what cannot
            // be taken back.
            let at = usize::from(steps.first() == Some(&Step::Drop(Tmp)));
            steps.insert(at, Step::Divert);
        }
        (Goal::Undo, true) if !steps.contains(&Step::Undivert) => steps.insert(0, Step::Undivert),
        (Goal::Repair, true) if unwrapped => {
            steps.push(Step::Undivert);
            return Outcome::Undiverted;
        }
        _ => {}
    }
    if steps.contains(&Step::Undivert) && outcome == Outcome::NotWrapped {
        Outcome::Undiverted
    } else {
        outcome
    }
}

type Steps = Result<(Vec<Step>, Outcome), Failure>;

fn wrap(seen: &Seen, now: State, request: &Request) -> Steps {
    match now {
        State::Plain => Ok((first(request.method), Outcome::Wrapped)),
        State::Interrupted => Ok((
            half(seen, request.method, request.wrapper),
            Outcome::Wrapped,
        )),
        State::SameFile => Ok((relink(request.method), Outcome::Wrapped)),
        // Interrupted before the last step of an adoption.
        State::Wrapped if seen.hidden.is_program() && seen.former.id == seen.hidden.id => {
            Ok((vec![Step::Drop(Former)], Outcome::Adopted))
        }
        State::Wrapped => Ok((vec![], Outcome::AlreadyWrapped)),
        State::Migtools => adopt(seen),
        State::Vanished => Ok((relink(request.method), Outcome::Repointed)),
        State::Bypassed if seen.app.runs => Ok((relink(request.method), Outcome::Wrapped)),
        State::Bypassed => {
            Err(refused("leads to CUDAWRAP_name beside it, which is not executable")
                .hint("chmod +x, if it is a program"))
        }
        State::Superseded if !seen.calls_hidden => Ok((relink(request.method), Outcome::Renewed)),
        State::Through if seen.app.runs => Ok((vec![], Outcome::AlreadyThrough)),
        State::Upgraded | State::Superseded => Err(refused("is a program, and so is the CUDAWRAP_name beside it")
            .hint("after an upgrade: create-cudawrap --repair, which removes CUDAWRAP_name; otherwise move one of the two away")),
        State::InTheWay => Err(in_the_way()),
        State::LinkOnly if seen.app.runs && seen.behind.is_some() => Ok((vec![], Outcome::AlreadyLinked)),
        _ => Err(hopeless(seen, now)),
    }
}

fn repair(seen: &Seen, now: State, request: &Request) -> Steps {
    let leads_there = seen.app.text.as_deref() == Some(request.wrapper);
    match now {
        // A file that cannot be started is no newer program: the one beside it stays.
        State::Upgraded if !seen.app.runs => {
            Err(refused("is not executable, and the program is CUDAWRAP_name beside it")
                .hint("chmod +x, if it is the new program; else remove it, and --undo puts the other back"))
        }
        State::Upgraded if seen.calls_hidden => {
            Err(refused("is a script that names CUDAWRAP_name beside it, so it is not a newer program: both are kept")
                .hint("to wrap the program again: move the script away, run create-cudawrap --undo, then wrap it"))
        }
        State::Upgraded if seen.diverted.is_some() => {
            Err(refused("is a program, and so is the CUDAWRAP_name beside it, where dpkg diverts it: it is not clear which is newer")
                .hint("move the one away that you do not want; dpkg installed CUDAWRAP_name"))
        }
        State::Upgraded => Ok((renew(request.method), Outcome::Renewed)),
        State::Superseded if seen.calls_hidden => wrap(seen, State::Upgraded, request),
        State::Superseded => Ok((relink(request.method), Outcome::Renewed)),
        State::Interrupted | State::SameFile => wrap(seen, now, request),
        State::Vanished => Ok((relink(request.method), Outcome::Repointed)),
        State::Wrapped | State::LinkOnly if request.named && !leads_there => {
            Ok((relink(request.method), Outcome::Repointed))
        }
        State::LinkOnly if !seen.app.runs => Ok((relink(request.method), Outcome::Repointed)),
        State::LinkOnly if seen.behind.is_some() => Ok((vec![], Outcome::Healthy)),
        State::Plain | State::Wrapped | State::Through | State::Bypassed => Ok((vec![], Outcome::Healthy)),
        State::InTheWay => Err(in_the_way()),
        State::Migtools => adopt(seen),
        _ => Err(hopeless(seen, now)),
    }
}

/// Wrapped by migtools: the program gets our name for it beside theirs, then a link of
/// ours takes the place of theirs. In between the path runs through their wrapper, which
/// finds the program under their name until the last step.
fn adopt(seen: &Seen) -> Steps {
    let begun = seen.hidden.id.is_some() && seen.hidden.id == seen.former.id;
    if !seen.former.is_program() || !seen.former.runs {
        return Err(refused(
            "is wrapped by migtools, but its program, MIGTOOLS_name beside it, does not exist",
        )
        .hint("install the program again, then wrap it"));
    }
    if !begun && seen.hidden.id.is_some() {
        return Err(in_the_way());
    }
    let mut steps = if begun {
        vec![]
    } else {
        vec![Step::Copy(Former, Hidden)]
    };
    steps.extend([
        Step::Link(Tmp),
        Step::Sync,
        Step::Over(Tmp, App),
        Step::Sync,
        Step::Drop(Former),
    ]);
    Ok((steps, Outcome::Adopted))
}

fn undo(seen: &Seen, now: State, method: Method) -> Steps {
    let back = match (now, method) {
        (State::Superseded, _) if seen.calls_hidden => return undo(seen, State::Upgraded, method),
        (State::Superseded | State::Bypassed, _) => {
            // Wrapped first, which is a state that a crash may leave. The diversion goes
            // after that: without it the older program would be taken for the newer one.
            let (wrapped, _) = undo(seen, State::Wrapped, method)?;
            let undivert = seen.diverted.is_some().then_some(Step::Undivert);
            relink(method)
                .into_iter()
                .chain(undivert)
                .chain(wrapped)
                .collect()
        }
        (State::Wrapped | State::Vanished, Method::Exchange) => {
            let mut steps = vec![Step::Swap(App, Hidden), Step::Sync];
            steps.extend(discard(Hidden, method));
            steps
        }
        (State::Wrapped | State::Vanished, Method::Replace) => vec![Step::Over(Hidden, App)],
        (State::Interrupted | State::SameFile, _) => discard(Hidden, method),
        (State::Orphan, Method::Exchange) => vec![Step::Move(Hidden, App)],
        (State::Orphan, Method::Replace) => {
            vec![Step::Copy(Hidden, App), Step::Sync, Step::Drop(Hidden)]
        }
        (State::LinkOnly, _) => return Ok((discard(App, method), Outcome::LinkRemoved)),
        (State::Plain | State::NotAProgram, _) => return Ok((vec![], Outcome::NotWrapped)),
        (State::Upgraded | State::InTheWay, _) => {
            return Err(
                refused("is a program, and so is CUDAWRAP_name beside it: both are kept")
                    .hint("an upgrade has replaced the link; remove the one that is not wanted"),
            );
        }
        // A diversion is left over, then.
        (State::Through, _) if seen.diverted.is_some() => return Ok((vec![], Outcome::NotWrapped)),
        (State::Through, _) => {
            return Err(refused(&format!(
                "only leads to {}, which leads to cudawrap",
                hop(seen)
            ))
            .hint("undo that one"));
        }
        (State::Migtools, _) => return Err(migtools()),
        (State::Lost, _) => return Err(lost()),
        (State::Missing, _) => return Err(refused("no such file")),
    };
    Ok((back, Outcome::Undone))
}
