//! What has to be done to get from a state to the one that was asked for, as a list of
//! single steps. Pure: after every step, and so after a crash at any of them, the path
//! runs; the tests walk through all of them.

use getgpu_common::error::{Failure, Kind};

use crate::inspect::Seen;
use crate::names::Place::{self, App, Former, Hidden, Tmp};
use crate::state::{Leftover, State, leftover, state};

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

/// What is said when all steps are done.
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
                .hint("look what it is, and move it away"));
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
        State::Interrupted => Ok((half(seen, request), Outcome::Wrapped)),
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
            .hint("after an upgrade: create-cudawrap --repair, which drops the one beside it; else move that away")),
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
            Err(refused("is a script that names CUDAWRAP_name beside it, so it is no newer program: both kept")
                .hint("to wrap the program again, move the script away, and create-cudawrap --undo, then wrap it"))
        }
        State::Upgraded if seen.diverted.is_some() => {
            Err(refused("is a program, and so is the CUDAWRAP_name beside it, where dpkg diverts it: which one is newer cannot be told")
                .hint("move the one that is not wanted away: what dpkg installed is CUDAWRAP_name"))
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
            "is wrapped by migtools, and its program, MIGTOOLS_name beside it, is not there",
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
            return Err(refused(
                "is a program of its own already, and CUDAWRAP_name beside it another: both kept",
            )
            .hint("an upgrade has replaced the link; remove the one that is not wanted"));
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

/// Plain: our link beside the program, then both change places.
fn first(method: Method) -> Vec<Step> {
    match method {
        Method::Exchange => vec![Step::Link(Hidden), Step::Sync, Step::Swap(App, Hidden)],
        Method::Replace => [vec![Step::Copy(App, Hidden), Step::Sync], relink(method)].concat(),
    }
}

/// Interrupted before the exchange; a link that leads elsewhere than wanted is made anew
/// first.
fn half(seen: &Seen, request: &Request) -> Vec<Step> {
    let usable = seen.hidden.runs && seen.hidden.text.as_deref() == Some(request.wrapper);
    match request.method {
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
        Method::Replace => renew(request.method),
    }
}

/// A new link in the place of what the path is now, which is an older link or a second
/// name of the program.
fn relink(method: Method) -> Vec<Step> {
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
fn renew(method: Method) -> Vec<Step> {
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
fn discard(place: Place, method: Method) -> Vec<Step> {
    match method {
        Method::Exchange => vec![Step::Move(place, Tmp), Step::Drop(Tmp)],
        Method::Replace => vec![Step::Drop(place)],
    }
}

fn names_tmp(step: Step) -> bool {
    match step {
        Step::Link(a) | Step::Drop(a) => a == Tmp,
        Step::Copy(a, b) | Step::Swap(a, b) | Step::Move(a, b) | Step::Over(a, b) => {
            a == Tmp || b == Tmp
        }
        Step::Divert | Step::Undivert | Step::Sync => false,
    }
}

fn hop(seen: &Seen) -> String {
    seen.app
        .through
        .as_ref()
        .map(|hop| hop.display().to_string())
        .unwrap_or_default()
}

fn refused(why: &str) -> Failure {
    Failure::new(Kind::Refused, why)
}

fn in_the_way() -> Failure {
    refused("something else has the name CUDAWRAP_name beside it")
        .hint("look what it is, and move it away")
}

fn migtools() -> Failure {
    refused("is wrapped by migtools")
        .hint("create-cudawrap without --undo adopts it; or put its program back: mv -T MIGTOOLS_name name")
}

fn lost() -> Failure {
    refused("is a link to cudawrap, and its program is nowhere")
        .hint("install the program again, then wrap it")
}

fn hopeless(seen: &Seen, now: State) -> Failure {
    match now {
        State::Missing => refused("no such file"),
        State::Orphan => refused("no such file; its program is CUDAWRAP_name beside it")
            .hint("--undo puts it back"),
        State::Through => refused(&format!(
            "leads to {}, which leads to cudawrap, and runs nothing",
            hop(seen)
        ))
        .hint("create-cudawrap --status shows what is wrong there"),
        State::Migtools => migtools(),
        State::LinkOnly => refused(
            "is a link to cudawrap, with no program of its name beside it or behind it in PATH",
        )
        .hint("install the program, or remove the link with --undo"),
        State::Lost => lost(),
        _ if seen.app.kind == crate::inspect::Kind::Directory => {
            refused("is a directory").hint("name the programs in it")
        }
        _ if seen.app.text.is_some() => refused("is a link that leads to no file"),
        _ => refused("is not a program"),
    }
}
