//! The command killed, or one system call failed, at each call that changes something: the
//! path still runs, a second run completes, and nothing is left over. Without strace the
//! test says so and passes.

use harness::skip::{Need, lacks};

use crate::support::Sandbox;
use crate::support::inject::{Call, ERRORS, Fate, Method, STARTS, calls, complete, run, suffer};

/// Asked to end in the middle, it first finishes what it has begun.
#[test]
fn terminated_or_interrupted_it_completes_the_plan() {
    let _turn = crate::GROUPS.enter(module_path!());
    if lacks(&[Need::Tool("strace")]) {
        return;
    }
    for start in STARTS {
        for signal in ["TERM", "INT", "HUP"] {
            let sandbox = Sandbox::new();
            (start.files)(&sandbox);
            // An adoption has nothing to exchange.
            let call = if start.name == "adopt" {
                "renameat"
            } else {
                "renameat2"
            };
            let inject = format!("-einject={call}:signal={signal}:when=1");
            let output = run(&sandbox, start, Method::Exchange, &[inject]);
            assert_eq!(
                output.status.code(),
                None,
                "{} {signal}: not ended by it",
                start.name
            );
            assert_eq!(
                sandbox.names("app").join(" "),
                start.end,
                "{} {signal}",
                start.name
            );
            complete(&sandbox, start, start.name);
        }
    }
}

/// A step that was done and cannot be looked at is taken back itself before those that
/// came before it.
#[test]
fn unable_to_look_at_what_it_did_it_takes_back_the_right_steps() {
    let _turn = crate::GROUPS.enter(module_path!());
    if lacks(&[Need::Tool("strace")]) {
        return;
    }
    let mut injections = 0;
    for start in STARTS {
        let sandbox = Sandbox::new();
        (start.files)(&sandbox);
        let all = calls(&sandbox, start, Method::Exchange);
        let first = all
            .iter()
            .position(|call| call.name.starts_with("rename"))
            .unwrap();
        for call in all[first..].iter().filter(|call| call.looks()) {
            let sandbox = Sandbox::new();
            (start.files)(&sandbox);
            suffer(
                &sandbox,
                start,
                Method::Exchange,
                call,
                Fate::Fails("EIO"),
                "here",
            );
            injections += 1;
        }
    }
    assert!(injections > 20, "{injections}");
}

#[test]
fn killed_or_failed_at_any_call_the_path_runs_and_a_second_run_completes() {
    let _turn = crate::GROUPS.enter(module_path!());
    if lacks(&[Need::Tool("strace")]) {
        return;
    }
    let each = harness::size(1, ERRORS.len());
    let mut injections = 0;
    for start in STARTS {
        for method in Method::ALL {
            let sandbox = Sandbox::new();
            (start.files)(&sandbox);
            let all: Vec<_> = calls(&sandbox, start, method)
                .into_iter()
                .filter(Call::changes)
                .collect();
            assert!(all.len() >= 4, "{}: {all:?}", start.name);
            for (place, call) in all.iter().enumerate() {
                let errors = (0..each).map(|n| Fate::Fails(ERRORS[(place + n) % ERRORS.len()]));
                for fate in std::iter::once(Fate::Killed).chain(errors) {
                    let sandbox = Sandbox::new();
                    (start.files)(&sandbox);
                    suffer(&sandbox, start, method, call, fate, "here");
                    injections += 1;
                }
            }
        }
    }
    println!(
        "row 8: {injections} injections where the tests run: every path ran, every second run completed"
    );
    assert!(injections > 100, "{injections}");
}
