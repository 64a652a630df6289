//! Every plan, stopped after every one of its steps, with and without exchange of names:
//! the path runs all the time, a second run completes, and nothing is left over.

use create_cudawrap::apply::Stop;
use create_cudawrap::names::Place;
use create_cudawrap::plan::{Goal, Method, Plan, Step};
use create_cudawrap::state::{State, state};

use crate::case::{Case, STARTS};

#[test]
fn a_stop_after_any_step_leaves_a_path_that_runs_and_a_second_run_completes() {
    let mut stops = 0;
    for method in [Method::Exchange, Method::Replace] {
        for (name, start) in STARTS {
            for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
                for length in 0.. {
                    let case = Case::new(method);
                    start(&case);
                    let (seen, ran) = (case.seen(), case.runs());
                    let Some(full) = case.plan(goal).filter(|full| length <= full.steps.len())
                    else {
                        break;
                    };
                    let what =
                        format!("{name}, {goal:?}, {method:?}, {length} of {:?}", full.steps);
                    let part = Plan {
                        steps: full.steps[..length].to_vec(),
                        outcome: full.outcome,
                    };
                    case.apply(&seen, &part)
                        .unwrap_or_else(|stop| panic!("{what}: {stop:?}"));
                    assert!(case.runs() || !ran, "{what}: does not run");
                    let rest = case
                        .plan(goal)
                        .unwrap_or_else(|| panic!("{what}: no way on"));
                    case.apply(&case.seen(), &rest)
                        .unwrap_or_else(|stop| panic!("{what}: again: {stop:?}"));
                    let end = state(&case.seen());
                    let wrapped = goal == Goal::Wrap || (goal == Goal::Repair && *name != "plain");
                    assert_eq!(
                        end,
                        if wrapped {
                            State::Wrapped
                        } else {
                            State::Plain
                        },
                        "{what}"
                    );
                    let names: &[&str] = if wrapped {
                        &["CUDAWRAP_x", "x"]
                    } else {
                        &["x"]
                    };
                    assert_eq!(case.listing(), names, "{what}");
                    assert!(case.runs(), "{what}");
                    stops += 1;
                }
            }
        }
    }
    // Guards against a table that silently became empty.
    assert!(stops > 100, "{stops}");
}

/// Fails the step after `length` by planning a step that cannot be done, and looks that
/// everything was taken back.
#[test]
fn a_failing_step_takes_back_what_was_done() {
    for (name, start) in STARTS {
        for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
            for length in 0.. {
                let case = Case::new(Method::Exchange);
                start(&case);
                let (seen, before) = (case.seen(), state(&case.seen()));
                let Some(full) = case.plan(goal).filter(|full| length <= full.steps.len()) else {
                    break;
                };
                // Past a removal, and past giving a missing path its program back, there
                // is no way back and none is wanted.
                let final_step =
                    |step: &Step| matches!(step, Step::Drop(_)) || before == State::Orphan;
                if full.steps[..length].iter().any(final_step) {
                    break;
                }
                let impossible = Step::Link(Place::App);
                let steps = [&full.steps[..length], &[impossible]].concat();
                let inodes = case
                    .listing()
                    .iter()
                    .map(|n| case.inode(n))
                    .collect::<Vec<_>>();
                if seen.app.id.is_none() {
                    break;
                }
                let stop = case
                    .apply(
                        &seen,
                        &Plan {
                            steps,
                            outcome: full.outcome,
                        },
                    )
                    .unwrap_err();
                assert!(
                    matches!(&stop, Stop::Failed(failure) if failure.hint.is_none()),
                    "{name} {goal:?} {length}: {stop:?}"
                );
                assert_eq!(state(&case.seen()), before, "{name} {goal:?} {length}");
                assert_eq!(
                    case.listing()
                        .iter()
                        .map(|n| case.inode(n))
                        .collect::<Vec<_>>(),
                    inodes,
                    "{name} {goal:?} {length}"
                );
            }
        }
    }
}

#[test]
fn a_file_system_without_exchange_is_told_apart_and_left_unchanged() {
    for (name, start) in &STARTS[..3] {
        let mut case = Case::new(Method::Replace);
        start(&case);
        case.method = Method::Exchange;
        for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
            let (seen, before) = (case.seen(), state(&case.seen()));
            let Some(full) = case
                .plan(goal)
                .filter(|plan| plan.steps.iter().any(|s| matches!(s, Step::Swap(..))))
            else {
                continue;
            };
            assert!(
                matches!(case.apply(&seen, &full), Err(Stop::NoExchange)),
                "{name} {goal:?}"
            );
            assert_eq!(state(&case.seen()), before, "{name} {goal:?}");
            assert!(!case.at(".CUDAWRAP_x~").exists());
        }
    }
}

/// Where another program may write at the same moment, a name is exchanged or moved away
/// and looked at before it goes.
#[test]
fn with_exchange_nothing_is_overwritten_and_only_the_temporary_name_is_removed() {
    for (name, start) in STARTS {
        for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
            let case = Case::new(Method::Exchange);
            start(&case);
            for step in case.plan(goal).map(|plan| plan.steps).unwrap_or_default() {
                let safe = !matches!(
                    step,
                    Step::Over(..) | Step::Drop(Place::App | Place::Hidden)
                );
                assert!(safe, "{name} {goal:?}: {step:?}");
            }
        }
    }
}
