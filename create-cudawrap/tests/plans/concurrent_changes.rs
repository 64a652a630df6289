//! A package manager changes the directory between planning and acting: whatever came there
//! meanwhile is kept.

use create_cudawrap::plan::Goal;
use getgpu_model::Failure;

use crate::case::{Case, ground};
use crate::layouts::{HIDDEN, Layout, TMP, Thing, X};
use crate::path_model::{Found, Runs, Snapshot, runs};

const OLD: Thing = Thing::Program('A');
const NEW: char = 'N';
const OURS: Thing = Thing::Link("../cudawrap");

type Entries = &'static [(&'static str, Thing)];

const PLAIN: Entries = &[(X, OLD)];
const WRAPPED: Entries = &[(HIDDEN, OLD), (X, OURS)];
const BEGUN: Entries = &[(X, OLD), (HIDDEN, Thing::SameAs(X))];
const UPGRADED: Entries = &[(X, OLD), (HIDDEN, OLD)];
const COPIED: Entries = &[(X, Thing::Copy), (HIDDEN, OLD)];
const VANISHED: Entries = &[(HIDDEN, OLD), (X, Thing::Link("/nowhere/cudawrap"))];
const ORPHAN: Entries = &[(HIDDEN, OLD)];
const LEFTOVER: Entries = &[(HIDDEN, OLD), (X, OURS), (TMP, OURS)];

/// Carries out a plan where a new program has come to a name meanwhile; how that ended, and
/// what is there then.
fn overtaken(entries: Entries, goal: Goal, name: &str) -> (Result<(), Failure>, Snapshot) {
    let ground = ground();
    let entries = entries.to_vec();
    let case = Case::new(ground.path(), &Layout { entries });
    let seen = case.seen();
    let full = case.plan(&seen, goal).unwrap();
    case.put("new", Thing::Program(NEW));
    std::fs::rename(case.at("new"), case.at(name)).unwrap();
    (case.apply(&seen, &full), case.snapshot())
}

/// Whether the new program is there.
fn is_new(all: &Snapshot, name: &str) -> bool {
    matches!(all.get(name), Some(Found::File { content: NEW, .. }))
}

#[test]
fn a_newer_program_that_comes_in_between_is_kept() {
    #[rustfmt::skip]
    let cases = [
        (PLAIN, Goal::Wrap, true), (BEGUN, Goal::Wrap, false), (WRAPPED, Goal::Undo, false),
        (UPGRADED, Goal::Repair, true), (COPIED, Goal::Repair, false),
        (COPIED, Goal::Undo, false), (VANISHED, Goal::Repair, false), (ORPHAN, Goal::Undo, false),
    ];
    for (entries, goal, done) in cases {
        let (result, all) = overtaken(entries, goal, X);
        let what = format!("{entries:?} {goal:?}: {result:?} {all:#?}");
        assert_eq!(result.is_ok(), done, "{what}");
        assert_eq!(runs(&all, X), Runs::Program(NEW), "{what}");
        assert!(is_new(&all, if done { HIDDEN } else { X }), "{what}");
    }
}

/// With a diversion, an upgrade lands in CUDAWRAP_x: undo gives back that one.
#[test]
fn undo_gives_back_a_program_that_an_upgrade_has_just_put_there() {
    let (result, all) = overtaken(WRAPPED, Goal::Undo, HIDDEN);
    assert!(
        result.is_ok() && is_new(&all, X) && all.len() == 1,
        "{all:#?}"
    );
}

#[test]
fn an_older_program_gets_a_further_name_before_it_is_replaced() {
    let (result, all) = overtaken(UPGRADED, Goal::Repair, HIDDEN);
    assert!(
        result.is_ok() && is_new(&all, "CUDAWRAP_x.replaced-1"),
        "{all:#?}"
    );
}

/// A leftover that is not the file that was looked at is not removed.
#[test]
fn a_name_that_changed_hands_is_not_removed() {
    let (result, all) = overtaken(LEFTOVER, Goal::Wrap, TMP);
    assert!(result.is_err() && is_new(&all, TMP), "{all:#?}");
}
