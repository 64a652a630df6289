//! What create-cudawrap prints of a path: what came of it, or the steps that a dry run
//! would take. Pure text.

use crate::apply::{self, Work};
use crate::inspect::Seen;
use crate::names::{Names, Place};
use crate::plan::{Outcome, Plan, Step};

/// The line for a path, by what the plan does to it.
pub fn of(plan: &Plan, names: &Names, seen: &Seen) -> String {
    let hidden = names.shown(Place::Hidden);
    if plan.steps == [Step::Drop(Place::Tmp), Step::Sync] {
        return format!(
            "{}, which an interrupted run had left, is removed",
            names.shown(Place::Tmp)
        );
    }
    match plan.outcome {
        Outcome::Wrapped => format!("wrapped; the program is {hidden} beside it"),
        Outcome::AlreadyWrapped if plan.steps.contains(&Step::Divert) => {
            format!("is already wrapped; from now on dpkg writes it to {hidden}")
        }
        Outcome::AlreadyWrapped => "is already wrapped; nothing changed".to_owned(),
        Outcome::Linked => {
            "the directory of links now has a link of this name to cudawrap".to_owned()
        }
        Outcome::AlreadyLinked => "is already a link to cudawrap; nothing changed".to_owned(),
        Outcome::Undone => "the program is back under its name".to_owned(),
        Outcome::LinkRemoved => "the link to cudawrap is removed".to_owned(),
        Outcome::NotWrapped => "is not wrapped; nothing changed".to_owned(),
        Outcome::Adopted => {
            format!("is now wrapped by cudawrap instead of migtools; the program is {hidden}")
        }
        Outcome::Renewed => format!("the newer program is wrapped; the older {hidden} is removed"),
        Outcome::Repointed => "leads to cudawrap again".to_owned(),
        Outcome::AlreadyThrough => {
            let hop = seen
                .app
                .through
                .as_ref()
                .map(|hop| hop.display().to_string())
                .unwrap_or_default();
            format!(
                "leads to {hop}, which starts through cudawrap, so it is wrapped already; nothing changed"
            )
        }
        Outcome::Undiverted => {
            format!("is not wrapped; dpkg does not divert it to {hidden} any more")
        }
        Outcome::Healthy => "needs no repair; nothing changed".to_owned(),
    }
}

/// The steps of a plan, as `--dry-run` prints them.
pub fn steps(plan: &Plan, work: &Work) -> Vec<String> {
    plan.steps
        .iter()
        .filter(|step| **step != Step::Sync)
        .map(|step| apply::describe(*step, work))
        .collect()
}
