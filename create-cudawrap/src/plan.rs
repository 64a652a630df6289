//! What has to be done to get from a state to the one that was asked for, as a list of
//! single steps. Pure: after every step, and so after a crash at any of them, the path
//! runs, and the same command goes on from there; the tests walk through all of them.

use std::ffi::{OsStr, OsString};

use getgpu_model::Failure;

use crate::causes::{PathCause, UnfitRemedy};

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
        return Err(PathCause::TakenByTmp.into());
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
        PathState::Begun if !seen.app.runs => Err(PathCause::NotExecutable.into()),
        PathState::Begun => Ok(wrapped(seen, relink())),
        PathState::Wrapped if has_lost_its_cudawrap(seen) => Ok(repointed()),
        PathState::Wrapped if seen.hidden.kind == EntryKind::Absent => match &seen.behind {
            Some(_) => Ok(unchanged("is already a link to cudawrap; nothing changed")),
            None => Err(PathCause::LinkAlone.into()),
        },
        // Interrupted before the last step of an adoption.
        PathState::Wrapped if seen.hidden.is_program() && seen.former.id == seen.hidden.id => {
            Ok(adopted(vec![Step::Drop(Former)]))
        }
        PathState::Wrapped => Ok(unchanged("is already wrapped; nothing changed")),
        PathState::Migtools => adopt(seen),
        PathState::Upgraded => Err(PathCause::Upgraded.into()),
        PathState::Copied => Err(PathCause::Copied.into()),
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
            Err(PathCause::LinkAlone.into())
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
        PathState::Plain if seen.app.through.is_some() => {
            let hop = hop(&seen.app);
            Err(PathCause::LeadsToWrapped { hop }.into())
        }
        PathState::Plain => Ok(unchanged("is not wrapped; nothing changed")),
        PathState::Wrapped if seen.hidden.kind == EntryKind::Absent => Ok(Plan::new(
            vec![Step::Drop(App)],
            "the link to cudawrap is removed",
        )),
        PathState::Begun if seen.app.text.is_none() => Ok(undone(Step::Drop(Hidden))),
        PathState::Begun | PathState::Wrapped | PathState::Copied => {
            Ok(undone(Step::Over(Hidden, App)))
        }
        PathState::Unclear if orphan => Ok(undone(Step::Over(Hidden, App))),
        PathState::Upgraded => Err(PathCause::UpgradedKept.into()),
        PathState::Migtools => Err(PathCause::OfMigtools.into()),
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
        return Err(PathCause::MigtoolsWithoutProgram.into());
    }
    if !begun && seen.hidden.id.is_some() {
        return Err(PathCause::TakenByHidden.into());
    }
    let first = (!begun).then_some(Step::SecondName(Former, Hidden));
    let rest = [Step::Sync].into_iter().chain(relink());
    let last = [Step::Sync, Step::Drop(Former)];
    Ok(adopted(first.into_iter().chain(rest).chain(last).collect()))
}

fn through(seen: &PathSnapshot) -> Result<Plan, Failure> {
    let hop = hop(&seen.app);
    if !seen.app.runs {
        return Err(PathCause::LeadsToNothing { hop }.into());
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

/// Why nothing is done with what create-cudawrap leaves alone.
fn unclear(seen: &PathSnapshot) -> Failure {
    let has_program = seen.hidden.is_program();
    let Some(what) = &oddity(seen) else {
        return PathCause::TakenByHidden.into();
    };
    let remedy = match seen.app.kind {
        EntryKind::Absent if has_program => return PathCause::OnlyHiddenLeft.into(),
        EntryKind::Absent => return PathCause::NoSuchFile.into(),
        _ if has_program => UnfitRemedy::MoveAway,
        EntryKind::Directory => UnfitRemedy::NamePrograms,
        EntryKind::Link(Leads::Cudawrap | Leads::Vanished) => UnfitRemedy::InstallAgain,
        _ => UnfitRemedy::Unknown,
    };
    PathCause::Unfit { what, remedy }.into()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
