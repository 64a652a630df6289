//! The command killed, or one system call failed, at each call that changes something, on
//! every file system that programs lie on: the path still runs, a second run completes, and
//! undone the same file is back. Without root and mounts only where the tests lie.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::skip::{Need, lacks, say};
use inject::{Blow, Call};
use nix::{errno::Errno, libc};

use crate::support::grounds::{Ground, Kind};
use crate::support::inject::{ERRORS, STARTS, calls, changes, suffer};

/// At every call after start-up in the full size; else at those that change something, and those
/// that read the file at the path.
fn chosen(all: Vec<Call>) -> Vec<(Call, Vec<Blow>)> {
    let full = harness::full();
    let reads = |call: &Call| call.number == libc::SYS_openat && call.subject.ends_with("/app/x");
    let all = all
        .into_iter()
        .filter(|call| full || changes(call) || reads(call));
    all.enumerate()
        .map(|(place, call)| {
            let errors = match (full, changes(&call)) {
                (true, true) => ERRORS.len(),
                (true, false) => 2,
                (false, true) => usize::from(place % 2 == 0),
                (false, false) => 1,
            };
            let possible: &[Errno] = if closes_directory(&call) {
                &[Errno::EINTR]
            } else {
                &ERRORS
            };
            let nth = |n| possible[(place + n) % possible.len()];
            let errors = (0..errors.min(possible.len())).map(|n| Blow::Fail(nth(n)));
            (call, std::iter::once(Blow::Kill).chain(errors).collect())
        })
        .collect()
}

/// Linux has nothing to write when a directory is closed (fs/open.c, `filp_flush`), so that no
/// other error than that of a signal can come; the standard library aborts at one.
fn closes_directory(call: &Call) -> bool {
    call.number == libc::SYS_close && Path::new(&call.subject).is_dir()
}

fn all_on(kind: Kind, injections: &AtomicUsize) {
    let base = tempfile::tempdir().unwrap();
    let ground = Ground::new(kind, base.path());
    for start in STARTS {
        ground.fresh(start);
        let all = calls(&ground.sandbox, start);
        let changing = all.iter().filter(|call| changes(call)).count();
        assert!(changing >= 4, "{}: {all:?}", start.name);
        for (call, blows) in chosen(all) {
            for blow in blows {
                ground.fresh(start);
                suffer(&ground.sandbox, start, &call, blow, kind.name());
                injections.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn on_every_file_system_the_path_runs_whatever_call_fails() {
    let _turn = harness::turn();
    if crate::support::inject::lacks() {
        return;
    }
    let mounts = !lacks(&[Need::Mounts]);
    let wanted: &[Kind] = if mounts { &Kind::ALL } else { &[Kind::Here] };
    let (kinds, missing): (Vec<Kind>, Vec<_>) = wanted.iter().partition(|kind| kind.there());
    for kind in missing {
        say(&format!("no {} here", kind.name()));
    }
    let injections = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for kind in &kinds {
            let injections = &injections;
            scope.spawn(move || match kind {
                Kind::Here => all_on(*kind, injections),
                _ => harness::mounts::apart(|| all_on(*kind, injections)),
            });
        }
    });
    let injections = injections.into_inner();
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    println!(
        "row 8: {} injections on {}: every path ran, every second run completed, every undo gave the same file",
        injections,
        names.join(", ")
    );
    assert!(
        injections >= kinds.len() * harness::size(40, 1000),
        "{injections}"
    );
}
