//! Every plan, stopped after every one of its steps: the path runs all the time, a second
//! run completes, and nothing is left over.

use create_cudawrap::plan::{Goal, Plan};
use create_cudawrap::state::{State, state};

use crate::case::{Case, STARTS};

#[test]
fn a_stop_after_any_step_leaves_a_path_that_runs_and_a_second_run_completes() {
    let mut stops = 0;
    for (name, start) in STARTS {
        for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
            for length in 0.. {
                let case = Case::new();
                start(&case);
                let (seen, ran) = (case.seen(), case.runs());
                let Some(full) = case.plan(goal).filter(|full| length <= full.steps.len()) else {
                    break;
                };
                let what = format!("{name}, {goal:?}, {length} of {:?}", full.steps);
                let part = Plan {
                    steps: full.steps[..length].to_vec(),
                    ..full
                };
                case.apply(&seen, &part)
                    .unwrap_or_else(|failure| panic!("{what}: {failure}"));
                assert!(case.runs() || !ran, "{what}: does not run");
                let rest = case
                    .plan(goal)
                    .unwrap_or_else(|| panic!("{what}: no way on"));
                case.apply(&case.seen(), &rest)
                    .unwrap_or_else(|failure| panic!("{what}: again: {failure}"));
                check_end(&case, name, goal, &what);
                stops += 1;
            }
        }
    }
    // Guards against a table that silently became empty.
    assert!(stops > 50, "{stops}");
}

fn check_end(case: &Case, start: &str, goal: Goal, what: &str) {
    // A repair leaves alone what is in order.
    let wrapped = match goal {
        Goal::Wrap => true,
        Goal::Undo => false,
        Goal::Repair => !matches!(start, "plain" | "unwrapped by hand"),
    };
    let mut names = match (wrapped, goal, start) {
        (true, ..) | (_, Goal::Repair, "unwrapped by hand") => vec!["CUDAWRAP_x", "x"],
        _ => vec!["x"],
    };
    if start == "upgraded" {
        names.push("x.replaced-1");
    }
    assert_eq!(state(&case.seen()) == State::Wrapped, wrapped, "{what}");
    assert_eq!(case.listing(), names, "{what}");
    assert!(case.runs(), "{what}");
}
