//! A package manager changes the directory between planning and acting: the newer program
//! is kept, and nothing that changed hands is removed.

use create_cudawrap::apply::Stop;
use create_cudawrap::names::Place;
use create_cudawrap::plan::{Goal, Method, Plan, Step};

use crate::case::{Case, STARTS};

/// What was seen is not what is there any more: a package manager has renamed a new
/// program over the path.
#[test]
fn a_newer_program_that_comes_in_between_is_kept() {
    for (start, goal) in [
        ("plain", Goal::Wrap),
        ("wrapped", Goal::Undo),
        ("upgraded", Goal::Repair),
        ("vanished", Goal::Repair),
    ] {
        let case = Case::new(Method::Exchange);
        STARTS.iter().find(|(name, _)| *name == start).unwrap().1(&case);
        let (seen, full) = (case.seen(), case.plan(goal).unwrap());
        case.program("new");
        let new = case.inode("new");
        std::fs::rename(case.at("new"), case.at("x")).unwrap();
        let result = case.apply(&seen, &full);
        assert!(case.runs(), "{start}");
        let at = if result.is_ok() { "CUDAWRAP_x" } else { "x" };
        assert_eq!(case.inode(at), new, "{start}: {result:?}");
        assert_eq!(
            result.is_ok(),
            matches!(goal, Goal::Wrap) || start == "upgraded",
            "{start}: {result:?}"
        );
        assert!(
            !case.listing().contains(&".CUDAWRAP_x~".to_owned()),
            "{start}"
        );
    }
}

/// With a diversion, an upgrade lands in CUDAWRAP_x: undo gives back that one.
#[test]
fn undo_gives_back_a_program_that_an_upgrade_has_just_put_there() {
    let case = Case::new(Method::Exchange);
    case.program("CUDAWRAP_x");
    case.ours("x");
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
    for method in [Method::Exchange, Method::Replace] {
        let case = Case::new(method);
        case.program("CUDAWRAP_x");
        let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
        case.program("x");
        let new = case.inode("x");
        assert!(
            matches!(case.apply(&seen, &full), Err(Stop::Failed(_))),
            "{method:?}"
        );
        assert_eq!(case.inode("x"), new, "{method:?}");
        assert_eq!(case.listing(), ["CUDAWRAP_x", "x"], "{method:?}");
    }
}

/// A leftover that is not the file that was looked at is not removed.
#[test]
fn a_name_that_changed_hands_is_not_removed() {
    let case = Case::new(Method::Exchange);
    case.program("CUDAWRAP_x");
    case.ours("x");
    case.program(".CUDAWRAP_x~");
    let (seen, full) = (case.seen(), case.plan(Goal::Wrap).unwrap());
    case.program("other");
    std::fs::rename(case.at("other"), case.at(".CUDAWRAP_x~")).unwrap();
    assert!(matches!(case.apply(&seen, &full), Err(Stop::Failed(_))));
    assert!(case.at(".CUDAWRAP_x~").exists());
}

#[test]
fn without_exchange_a_path_that_changed_hands_is_not_renamed_over() {
    let case = Case::new(Method::Replace);
    case.program("CUDAWRAP_x");
    case.ours("x");
    let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
    case.program("new");
    let new = case.inode("new");
    std::fs::rename(case.at("new"), case.at("x")).unwrap();
    assert!(matches!(case.apply(&seen, &full), Err(Stop::Failed(_))));
    assert_eq!(case.inode("x"), new);
}

#[test]
fn a_program_that_is_back_under_its_name_is_not_taken_away_again() {
    let case = Case::new(Method::Exchange);
    case.program("CUDAWRAP_x");
    let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
    let steps = [&full.steps[..], &[Step::Link(Place::App)]].concat();
    assert!(
        case.apply(
            &seen,
            &Plan {
                steps,
                outcome: full.outcome
            }
        )
        .is_err()
    );
    assert_eq!(case.listing(), ["x"]);
}
