//! A package manager changes the directory between planning and acting: whatever came there
//! meanwhile is kept.

use create_cudawrap::plan::Goal;

use crate::case::{Case, STARTS};

fn prepared(start: &str) -> Case {
    let case = Case::new();
    STARTS.iter().find(|(name, _)| *name == start).unwrap().1(&case);
    case
}

#[test]
fn a_newer_program_that_comes_in_between_is_kept() {
    for (start, goal) in [
        ("plain", Goal::Wrap),
        ("begun", Goal::Wrap),
        ("wrapped", Goal::Undo),
        ("upgraded", Goal::Repair),
        ("copied", Goal::Repair),
        ("copied", Goal::Undo),
        ("vanished", Goal::Repair),
    ] {
        let case = prepared(start);
        let (seen, full) = (case.seen(), case.plan(goal).unwrap());
        case.program("new");
        let new = case.inode("new");
        std::fs::rename(case.at("new"), case.at("x")).unwrap();
        let result = case.apply(&seen, &full);
        assert!(case.runs(), "{start}");
        let at = if result.is_ok() { "CUDAWRAP_x" } else { "x" };
        assert_eq!(case.inode(at), new, "{start} {goal:?}: {result:?}");
        assert_eq!(
            result.is_ok(),
            matches!(start, "plain" | "upgraded"),
            "{start} {goal:?}: {result:?}"
        );
    }
}

/// With a diversion, an upgrade lands in CUDAWRAP_x: undo gives back that one.
#[test]
fn undo_gives_back_a_program_that_an_upgrade_has_just_put_there() {
    let case = prepared("wrapped");
    let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
    case.program("new");
    let new = case.inode("new");
    std::fs::rename(case.at("new"), case.at("CUDAWRAP_x")).unwrap();
    case.apply(&seen, &full).unwrap();
    assert_eq!(case.listing(), ["x"]);
    assert_eq!(case.inode("x"), new);
}

#[test]
fn a_program_that_comes_to_a_missing_path_is_not_overwritten() {
    let case = prepared("orphan");
    let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
    case.program("x");
    let new = case.inode("x");
    case.apply(&seen, &full).unwrap_err();
    assert_eq!(case.inode("x"), new);
    assert_eq!(case.listing(), ["CUDAWRAP_x", "x"]);
}

#[test]
fn an_older_program_is_never_renamed_over_without_its_further_name() {
    let case = prepared("upgraded");
    let (seen, full) = (case.seen(), case.plan(Goal::Repair).unwrap());
    case.program("new");
    let new = case.inode("new");
    std::fs::rename(case.at("new"), case.at("CUDAWRAP_x")).unwrap();
    case.apply(&seen, &full).unwrap();
    assert_eq!(case.inode("x.replaced-1"), new);
}

/// A leftover that is not the file that was looked at is not removed.
#[test]
fn a_name_that_changed_hands_is_not_removed() {
    let case = prepared("wrapped");
    case.ours(".CUDAWRAP_x~");
    let (seen, full) = (case.seen(), case.plan(Goal::Wrap).unwrap());
    case.program("other");
    std::fs::rename(case.at("other"), case.at(".CUDAWRAP_x~")).unwrap();
    case.apply(&seen, &full).unwrap_err();
    assert!(case.at(".CUDAWRAP_x~").exists());
}
