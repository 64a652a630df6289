//! The command killed, or one system call failed, at each call that changes something: the
//! path still runs, a second run completes, and nothing is left over. Without strace the
//! test says so and passes.

use harness::skip::{Need, lacks};

use crate::support::Sandbox;
use crate::support::inject::{Call, ERRORS, Fate, STARTS, calls, suffer};

#[test]
fn killed_or_failed_at_any_call_the_path_runs_and_a_second_run_completes() {
    let _turn = crate::GROUPS.enter(module_path!());
    if lacks(&[Need::Tool("strace")]) {
        return;
    }
    let each = harness::size(1, ERRORS.len());
    let mut injections = 0;
    for start in STARTS {
        {
            let sandbox = Sandbox::new();
            (start.files)(&sandbox);
            let all: Vec<_> = calls(&sandbox, start)
                .into_iter()
                .filter(Call::changes)
                .collect();
            assert!(all.len() >= 4, "{}: {all:?}", start.name);
            for (place, call) in all.iter().enumerate() {
                let errors = (0..each).map(|n| Fate::Fails(ERRORS[(place + n) % ERRORS.len()]));
                for fate in std::iter::once(Fate::Killed).chain(errors) {
                    let sandbox = Sandbox::new();
                    (start.files)(&sandbox);
                    suffer(&sandbox, start, call, fate, "here");
                    injections += 1;
                }
            }
        }
    }
    println!(
        "row 8: {injections} injections where the tests run: every path ran, every second run completed"
    );
    assert!(injections > 60, "{injections}");
}
