//! The same on every file system that programs lie on, with and without exchange of names;
//! undone, the same file is back. Needs root, mounts and strace.

use std::sync::atomic::{AtomicUsize, Ordering};

use harness::skip::{Need, lacks, say};

use crate::support::grounds::{Ground, Kind};
use crate::support::inject::{Call, ERRORS, Fate, STARTS, calls, suffer};

/// At every call after start-up in the full size; else at those that change something.
fn chosen(all: Vec<Call>) -> Vec<(Call, Vec<Fate>)> {
    let full = harness::full();
    let all = all.into_iter().filter(|call| full || call.changes());
    all.enumerate()
        .map(|(place, call)| {
            let errors = match (full, call.changes()) {
                (true, true) => ERRORS.len(),
                (true, false) => 2,
                (false, _) => usize::from(place % 2 == 0),
            };
            let errors = (0..errors).map(|n| Fate::Fails(ERRORS[(place + n) % ERRORS.len()]));
            (call, std::iter::once(Fate::Killed).chain(errors).collect())
        })
        .collect()
}

fn all_on(kind: Kind, injections: &AtomicUsize) {
    let base = tempfile::tempdir().unwrap();
    let ground = Ground::new(kind, base.path());
    for start in STARTS {
        {
            ground.fresh(start);
            let all = calls(&ground.sandbox, start);
            assert!(
                all.iter().filter(|call| call.changes()).count() >= 4,
                "{}: {all:?}",
                start.name
            );
            for (call, fates) in chosen(all) {
                for fate in fates {
                    ground.fresh(start);
                    suffer(&ground.sandbox, start, &call, fate, kind.name());
                    injections.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

#[test]
fn on_every_file_system_the_path_runs_whatever_call_fails() {
    let _turn = crate::GROUPS.enter(module_path!());
    if lacks(&[Need::Mounts, Need::Tool("strace")]) {
        return;
    }
    let (kinds, missing): (Vec<_>, Vec<_>) = Kind::ALL.into_iter().partition(|kind| kind.there());
    for kind in missing {
        say(&format!("no {} here", kind.name()));
    }
    let injections = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for kind in &kinds {
            let injections = &injections;
            scope.spawn(move || harness::mounts::apart(|| all_on(*kind, injections)));
        }
    });
    let injections = injections.into_inner();
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    println!(
        "row 8: {} injections on {}: every path ran, every second run completed, every undo gave the same file",
        harness::thousands(injections),
        names.join(", ")
    );
    assert!(
        injections >= kinds.len() * harness::size(40, 1000),
        "{injections}"
    );
}
