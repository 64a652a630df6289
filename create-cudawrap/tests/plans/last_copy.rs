//! Whatever lies at a path and beside it, create-cudawrap removes no program, and the path
//! goes on running the program that it ran, after each step and so after a crash there.
//! Layouts are generated; a model says what must run.

use std::path::Path;

use create_cudawrap::plan::{Goal, Plan};
use create_cudawrap::state::{PathState, state};

use crate::case::{Case, ground};
use crate::layouts::{HIDDEN, Layout, TMP, X, layouts};
use crate::path_model::{Found, Runs, Snapshot, contents, runs};

/// What must hold between the beginning and any moment afterwards.
fn check(
    before: &Snapshot,
    now: &Snapshot,
    began: PathState,
    goal: Goal,
    what: &dyn Fn() -> String,
) {
    let (ran, run) = (runs(before, X), runs(now, X));
    if ran != Runs::Nothing {
        assert_eq!(run, ran, "{}: {now:#?}", what());
    }
    for content in contents(before) {
        assert!(
            contents(now).contains(&content),
            "{}: the last copy of {content} is gone: {before:#?} {now:#?}",
            what()
        );
    }
    for (name, found) in before
        .iter()
        .filter(|(name, _)| ![X, HIDDEN, TMP].contains(&name.as_str()))
    {
        assert_eq!(now.get(name), Some(found), "{}: {name}", what());
    }
    // Another path runs what it ran, unless it depends on a name that is ours to take
    // away.
    let borrowed = before.values().any(|found| {
        matches!(found, Found::Link { text, .. } if [HIDDEN, TMP, "../e/loop-to-hidden"].contains(&text.as_str()))
    });
    if !borrowed && runs(before, "y") != Runs::Nothing {
        assert_eq!(runs(now, "y"), runs(before, "y"), "{}: y", what());
    }
    // An undone program is the one that was hidden, and the very same file.
    let undone = goal == Goal::Undo && now.get(HIDDEN).is_none();
    if undone && run != Runs::Nothing && matches!(began, PathState::Wrapped | PathState::Copied) {
        assert_eq!(now.get(X), before.get(HIDDEN), "{}: another file", what());
    }
}

#[test]
fn no_layout_loses_a_program_and_the_path_runs_what_it_ran() {
    // Every one in the full size, else one of so many, another one for each place in the
    // list.
    let stride = if harness::full() { 1 } else { 31 };
    let all: Vec<Layout> = layouts().step_by(stride).collect();
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let counts: Vec<[usize; 3]> = std::thread::scope(|scope| {
        let work = |part: Vec<&Layout>| {
            let ground = ground();
            part.into_iter().fold([0; 3], |counts, layout| {
                let more = try_all(ground.path(), layout);
                std::array::from_fn(|place| counts[place] + more[place])
            })
        };
        let parts = (0..workers).map(|n| all.iter().skip(n).step_by(workers).collect::<Vec<_>>());
        let running: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        running
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let sum = |place: usize| counts.iter().map(|count| count[place]).sum::<usize>();
    println!(
        "invariant: {} layouts, {} operations done and {} refused, {} crashes between two steps: no program removed",
        all.len(),
        sum(0),
        sum(1),
        sum(2)
    );
    // Guards against a list that silently became empty.
    assert!(sum(0) > 400, "{}", sum(0));
}

/// Every operation on a layout, in one go and stopped after every step and done again:
/// how many were done, refused and stopped.
fn try_all(root: &Path, layout: &Layout) -> [usize; 3] {
    let mut counts = [0; 3];
    for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
        for stop in 0.. {
            let case = Case::new(root, layout);
            let (before, seen) = (case.snapshot(), case.seen());
            let began = state(&seen);
            let what = || format!("{layout:?}, {began:?}, {goal:?}, stopped after {stop}");
            let Some(full) = case.plan(&seen, goal) else {
                counts[1] += 1;
                break;
            };
            if stop > full.steps.len() {
                break;
            }
            let steps = full.steps[..stop].to_vec();
            let part = Plan {
                steps,
                ..full.clone()
            };
            case.apply(&seen, &part).unwrap();
            check(&before, &case.snapshot(), began, goal, &what);
            counts[usize::from(stop < full.steps.len()) * 2] += 1;
            // Again, to the end. Where the way there was one of several, there may be
            // nothing left to do, or nothing that can be.
            let seen = case.seen();
            if let Some(rest) = case.plan(&seen, goal) {
                case.apply(&seen, &rest).unwrap();
            } else {
                let had =
                    runs(&before, X) != Runs::Nothing || runs(&before, HIDDEN) != Runs::Nothing;
                // What is back under its name may lead to a wrapped path.
                let had = had && !(goal == Goal::Undo && seen.app.through.is_some());
                assert!(stop == full.steps.len() || !had, "{}: no way on", what());
            }
            check(&before, &case.snapshot(), began, goal, &what);
        }
    }
    counts
}
