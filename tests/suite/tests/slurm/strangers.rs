//! What any user can do beside the hooks: a process that looks like a holder and cannot be read, or
//! does not end, and locks on marks and on tags. A hook loses a second to all of them at most.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use getgpu_tests::stranger::{self, Stranger};
use getgpu_tests::{OTHER, bytes};
use harness::Sandbox;
use nix::fcntl::{Flock, FlockArg};

use crate::hook_calls::{counts, epilog, hook, job, mig4, prolog, quiet};

/// Called like a holder, with a byte that shows that it holds something, and no words to be read.
const SILENT: Stranger<'static> = Stranger {
    uid: OTHER,
    name: "getgpu-hold",
    locks: &[(1 << 33, 1)],
    ways: "hide",
    words: &[],
};

/// Where strangers can be started; none: it has been said.
fn node() -> Option<Sandbox> {
    (!stranger::lacks()).then(mig4).flatten()
}

#[test]
fn another_users_process_is_not_looked_at() {
    let Some(sandbox) = node() else { return };
    let uid = OTHER + 1;
    let _stranger = Stranger { uid, ..SILENT }.start(&sandbox);
    quiet(prolog(&sandbox, &job(0)));
    // One with a part, and one without.
    for number in [0, 1] {
        quiet(epilog(&sandbox, &job(number)));
    }
    assert!(sandbox.beside_lock().is_empty());
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 0);
}

/// Four jobs of the stranger's own leave four notes: the next prolog loses a second, and not ten to
/// each of them.
#[test]
fn a_jobs_own_user_costs_a_hook_a_second() {
    let Some(sandbox) = node() else { return };
    let _stranger = SILENT.start(&sandbox);
    for number in 0..4 {
        let said = epilog(&sandbox, &job(number)).wait();
        said.exits(0).mentions("could not be read in time");
        assert!(said.elapsed < Duration::from_secs(9), "{said:?}");
    }
    assert_eq!(sandbox.beside_lock().len(), 4);
    let said = prolog(&sandbox, &job(4)).wait();
    said.exits(0).mentions("could not be read in time");
    assert!(said.elapsed < Duration::from_secs(20), "{said:?}");
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
    // Nothing is forgotten.
    drop(_stranger);
    let said = hook(&sandbox, "prolog", "", &job(5), "").wait();
    let lines = said.exits(0).stderr.matches("its epilog was interrupted");
    assert_eq!(lines.count(), 4, "{said:?}");
    assert!(sandbox.beside_lock().is_empty());
}

#[test]
fn a_part_whose_holder_does_not_end_costs_an_epilog_a_second() {
    let Some(sandbox) = node() else { return };
    let (uuid, number) = (sandbox.uuids().remove(0), job(0));
    let job_word = format!("job={number}");
    let words = [
        "--holder",
        &uuid,
        "caller=1(init)",
        "since=1",
        "part=1",
        &job_word,
    ];
    let reservation = bytes::span(&uuid) + bytes::RESERVATION;
    let locks = [(reservation, bytes::UNITS / 16)];
    let deaf = Stranger {
        ways: "deaf",
        locks: &locks,
        words: &words,
        ..SILENT
    };
    let _deaf = deaf.start(&sandbox);
    let said = epilog(&sandbox, &number).wait();
    said.exits(0).mentions("does not end");
    assert!(said.elapsed < Duration::from_secs(5), "{said:?}");
}

/// Only root can lock a mark; one that an older version has left, and another user has locked, is
/// replaced.
#[test]
fn a_lock_on_a_mark_delays_no_hook() {
    let Some(sandbox) = mig4() else { return };
    let old = |name: &str| {
        let file = sandbox.file(&format!("run/{name}-{}", job(0)), "", 0o644);
        Flock::lock(File::open(file).unwrap(), FlockArg::LockExclusiveNonblock).unwrap()
    };
    let _locked = ["slurm", "ended"].map(old);
    sandbox.ask("--hold=0 -n 4 --tag all").exits(0);
    let said = prolog(&sandbox, &job(0)).wait();
    said.exits(0).mentions("nothing reserved");
    let mark = sandbox.path(&format!("run/slurm-{}", job(0)));
    let mode = std::fs::metadata(mark).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    quiet(epilog(&sandbox, &job(0)));
    assert!(sandbox.beside_lock().is_empty());
}

/// Each user's turn at a tag is a byte of the lock, which anybody can lock.
#[test]
fn a_lock_on_all_tags_delays_no_prolog() {
    let Some(sandbox) = mig4() else { return };
    sandbox.ask("--list").exits(0);
    let stranger = bytes::open(&sandbox);
    bytes::lock(&stranger, nix::libc::F_WRLCK, bytes::TAGS, 1 << 24).unwrap();
    let said = quiet(prolog(&sandbox, &job(0)));
    assert!(said.elapsed < Duration::from_secs(5), "{said:?}");
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
}
