//! What has to be done to get from a state to the one that was asked for, as a list of
//! single steps. Pure: after every step, and so after a crash at any of them, the path
//! runs, and the same command goes on from there; the tests walk through all of them.

use std::ffi::{OsStr, OsString};

use getgpu_model::{Failure, refused};

use crate::executable::Form;
use crate::inspect::{EntryKind, Leads, NameEntry, PathSnapshot};
use crate::names::Place::{self, App, Former, Hidden, Tmp};
use crate::state::{PathState, has_leftover, oddity};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The path shall start through cudawrap.
    Wrap,
    /// The program shall be back under its name.
    Undo,
    /// What an upgrade, a copy or a move has broken shall work again.
    Repair,
}

/// One change in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new link to cudawrap.
    Link(Place),
    /// A second name for the first one's file.
    SecondName(Place, Place),
    /// This further name for `CUDAWRAP_app`, which a newer program is about to get.
    Keep(OsString),
    /// Renamed over what has the new name.
    Over(Place, Place),
    /// The name goes away: a link to cudawrap, or the second name of a file.
    Drop(Place),
    /// What was done is on the disk before the next step.
    Sync,
}

/// The steps, and what they lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// What is printed when they are done.
    pub text: String,
}

impl Plan {
    pub fn new(steps: Vec<Step>, text: &str) -> Self {
        Self {
            steps,
            text: text.to_owned(),
        }
    }
}

/// The steps to `goal` in the state `now`, which `seen` shows, or why there are none. `named`:
/// the cudawrap that the user named; then a repair leads sound links there too.
pub fn plan(
    seen: &PathSnapshot,
    now: PathState,
    goal: Goal,
    named: Option<&OsStr>,
) -> Result<Plan, Failure> {
    let mut plan = match goal {
        Goal::Wrap => wrap(seen, now)?,
        Goal::Repair => repair(seen, now, named)?,
        Goal::Undo => undo(seen, now)?,
    };
    if has_leftover(seen) {
        if plan.steps.is_empty() {
            plan.text = "what an interrupted run had left beside it is removed".to_owned();
        }
        plan.steps.insert(0, Step::Drop(Tmp));
    } else if (seen.tmp.kind != EntryKind::Absent || seen.tmp_in_use)
        && plan.steps.contains(&Step::Link(Tmp))
    {
        return Err(refused("the file .CUDAWRAP_name~ beside it is in the way")
            .hint("find out what it is, and move it away"));
    }
    if !plan.steps.is_empty() {
        plan.steps.push(Step::Sync);
    }
    Ok(plan)
}

fn wrap(seen: &PathSnapshot, now: PathState) -> Result<Plan, Failure> {
    match now {
        PathState::Plain if seen.app.through.is_some() => through(seen),
        PathState::Plain => {
            let steps = [vec![Step::SecondName(App, Hidden), Step::Sync], relink()].concat();
            Ok(wrapped(seen, steps))
        }
        PathState::Begun if !seen.app.runs => {
            Err(refused("is not executable").hint("chmod +x, if it is a program"))
        }
        PathState::Begun => Ok(wrapped(seen, relink())),
        PathState::Wrapped if has_lost_its_cudawrap(seen) => Ok(repointed()),
        PathState::Wrapped if seen.hidden.kind == EntryKind::Absent => match &seen.behind {
            Some(_) => Ok(unchanged(
                "is already a link to cudawrap; nothing changed",
            )),
            None => Err(link_alone()),
        },
        // Interrupted before the last step of an adoption.
        PathState::Wrapped if seen.hidden.is_program() && seen.former.id == seen.hidden.id => {
            Ok(adopted(vec![Step::Drop(Former)]))
        }
        PathState::Wrapped => Ok(unchanged(
            "is already wrapped; nothing changed",
        )),
        PathState::Migtools => adopt(seen),
        PathState::Upgraded => Err(refused("is a program, and so is the CUDAWRAP_name beside it")
            .hint("after an upgrade: create-cudawrap --repair, which wraps the program at the path and keeps the other under another name")),
        PathState::Copied => Err(refused("is a copy of cudawrap; the program is CUDAWRAP_name beside it")
            .hint("create-cudawrap --repair makes it a link again")),
        PathState::Missing | PathState::Unclear => Err(unclear(seen)),
    }
}

fn repair(seen: &PathSnapshot, now: PathState, named: Option<&OsStr>) -> Result<Plan, Failure> {
    let leads_elsewhere = named.is_some() && seen.app.text.as_deref() != named;
    match now {
        PathState::Upgraded => Ok(renewed(seen)),
        PathState::Copied => Ok(Plan::new(
            relink(),
            "was a copy of cudawrap, and is a link to it again",
        )),
        PathState::Begun if seen.app.text.is_none() => wrap(seen, now),
        PathState::Wrapped if has_lost_its_cudawrap(seen) || leads_elsewhere => Ok(repointed()),
        PathState::Wrapped if seen.hidden.kind == EntryKind::Absent && seen.behind.is_none() => {
            Err(link_alone())
        }
        PathState::Plain | PathState::Begun | PathState::Wrapped => {
            Ok(unchanged("needs no repair; nothing changed"))
        }
        PathState::Migtools => adopt(seen),
        PathState::Missing | PathState::Unclear => Err(unclear(seen)),
    }
}

fn undo(seen: &PathSnapshot, now: PathState) -> Result<Plan, Failure> {
    let orphan = seen.app.kind == EntryKind::Absent && seen.hidden.is_program();
    match now {
        PathState::Plain if seen.app.through.is_some() => Err(refused(&format!(
            "only leads to {}, which leads to cudawrap",
            hop(&seen.app)
        ))
        .hint("undo that one")),
        PathState::Plain => Ok(unchanged(
            "is not wrapped; nothing changed",
        )),
        PathState::Wrapped if seen.hidden.kind == EntryKind::Absent => Ok(Plan::new(
            vec![Step::Drop(App)],
            "the link to cudawrap is removed",
        )),
        PathState::Begun if seen.app.text.is_none() => Ok(undone(Step::Drop(Hidden))),
        PathState::Begun | PathState::Wrapped | PathState::Copied => Ok(undone(Step::Over(Hidden, App))),
        PathState::Unclear if orphan => Ok(undone(Step::Over(Hidden, App))),
        PathState::Upgraded => Err(refused(
            "is a program, and so is CUDAWRAP_name beside it: both are kept",
        )
        .hint("an upgrade has replaced the link; move the one away that is not wanted")),
        PathState::Migtools => Err(refused("is wrapped by migtools").hint(
            "create-cudawrap without --undo takes it over; or put its program back: mv -T MIGTOOLS_name name",
        )),
        PathState::Unclear if seen.hidden.kind == EntryKind::Absent => {
            let what = oddity(seen).unwrap_or_default();
            let text = format!("is {what}, and not wrapped; nothing changed");
            Ok(unchanged(&text))
        }
        PathState::Missing | PathState::Unclear => Err(unclear(seen)),
    }
}

/// A new link in the place of what the path is now: an older link, a copy of cudawrap, or
/// the first name of the program.
fn relink() -> Vec<Step> {
    vec![Step::Link(Tmp), Step::Over(Tmp, App)]
}

fn wrapped(seen: &PathSnapshot, steps: Vec<Step>) -> Plan {
    let script = match seen.form {
        Some(Form::Script) => {
            ", and as a script it sees that name as $0: if it starts others by $0, use --link-dir instead"
        }
        _ => "",
    };
    let text = format!("wrapped; the program is CUDAWRAP_name beside it{script}");
    Plan::new(steps, &text)
}

fn undone(step: Step) -> Plan {
    Plan::new(vec![step], "the program is back under its name")
}

fn repointed() -> Plan {
    Plan::new(relink(), "leads to cudawrap again")
}

fn adopted(steps: Vec<Step>) -> Plan {
    let text = "is now wrapped by cudawrap instead of migtools; the program is CUDAWRAP_name";
    Plan::new(steps, text)
}

pub fn unchanged(text: &str) -> Plan {
    Plan::new(Vec::new(), text)
}

/// The program at the path gets the name `CUDAWRAP_app`, and the older one another.
fn renewed(seen: &PathSnapshot) -> Plan {
    let first = [
        Step::Keep(seen.replaced.clone()),
        Step::SecondName(App, Tmp),
        Step::Over(Tmp, Hidden),
        Step::Sync,
    ];
    let older = seen.replaced.to_string_lossy();
    let text = format!("the newer program is wrapped; the older one is {older} now");
    Plan::new([&first[..], &relink()].concat(), &text)
}

/// Wrapped by migtools: the program gets our name for it beside theirs, then a link to
/// cudawrap takes the place of theirs. In between the path runs through their wrapper,
/// which finds the program under their name until the last step.
fn adopt(seen: &PathSnapshot) -> Result<Plan, Failure> {
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
    let first = (!begun).then_some(Step::SecondName(Former, Hidden));
    let rest = [Step::Sync].into_iter().chain(relink());
    let last = [Step::Sync, Step::Drop(Former)];
    Ok(adopted(first.into_iter().chain(rest).chain(last).collect()))
}

fn through(seen: &PathSnapshot) -> Result<Plan, Failure> {
    let hop = hop(&seen.app);
    if !seen.app.runs {
        return Err(refused(&format!(
            "leads to {hop}, a link to cudawrap that runs no program"
        ))
        .hint("create-cudawrap --status shows what is wrong there"));
    }
    let text = format!(
        "leads to {hop}, which starts through cudawrap, so it is wrapped already; nothing changed"
    );
    Ok(unchanged(&text))
}

/// Whether the cudawrap that the link leads to cannot or must not be run.
fn has_lost_its_cudawrap(seen: &PathSnapshot) -> bool {
    seen.app.kind == EntryKind::Link(Leads::Vanished) || seen.wrapper_fault.is_some()
}

fn hop(app: &NameEntry) -> String {
    let hop = app.through.as_ref();
    hop.map(|hop| hop.display().to_string()).unwrap_or_default()
}

fn link_alone() -> Failure {
    refused("is a link to cudawrap, with no program of its name beside it or behind it in PATH")
        .hint("install the program, or remove the link with --undo")
}

fn in_the_way() -> Failure {
    refused("something else has the name CUDAWRAP_name beside it")
        .hint("find out what it is, and move it away")
}

/// Why nothing is done with what create-cudawrap leaves alone.
fn unclear(seen: &PathSnapshot) -> Failure {
    let has_program = seen.hidden.is_program();
    let Some(what) = oddity(seen) else {
        return in_the_way();
    };
    let failure = match seen.app.kind {
        EntryKind::Absent if has_program => {
            return refused("no such file; the program is CUDAWRAP_name beside it")
                .hint("--undo puts it back");
        }
        EntryKind::Absent => return refused("no such file"),
        _ => refused(&format!("is {what}")),
    };
    match seen.app.kind {
        _ if has_program => failure.hint(
            "find out what it is, and move it away; then --undo puts the program back, and it can be wrapped again",
        ),
        EntryKind::Directory => failure.hint("name the programs in it"),
        EntryKind::Link(Leads::Cudawrap | Leads::Vanished) => {
            failure.hint("install the program again, then wrap it")
        }
        _ => failure,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
