//! What is done elsewhere while a command stands before a call: the lock is replaced, the
//! reservation around it ends, another joins the queue that it is about to join.

use std::time::{Duration, Instant};

use getgpu_tests::{all_at_once, bytes, listing};
use harness::{Sandbox, Signal, size, wait, written};
use nix::libc::{O_ACCMODE, O_RDWR, SYS_openat};
use nix::sys::signal::kill;
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use super::{follow, lacks_tracer};

/// Of no run: the command is only followed.
const NOWHERE: usize = usize::MAX;

/// Who opens the lock once more to claim a device sees that it is another; whose claims are made
/// has them on the lock that others know.
#[test]
fn a_command_that_claims_on_a_replaced_lock_is_refused() {
    if lacks_tracer() {
        return;
    }
    #[rustfmt::skip]
    let cases = [
        ("cudawrap -- sim-cuda", bytes::LEASE, 125), ("getgpu --for=0.1", bytes::RESERVATION, 4),
        ("cudawrap -n 2 -- sim-cuda", bytes::LEASE, 125),
    ];
    all_at_once(cases, |(words, side, refused)| {
        let (calls, _) = replaced_at(words, side, refused, NOWHERE);
        let ends = (0..calls).step_by(size(2, 1));
        let ends: Vec<bool> = ends
            .map(|at| replaced_at(words, side, refused, at).1)
            .collect();
        let both = ends.contains(&true) && ends.contains(&false);
        assert!(both, "{words}: {ends:?}");
    });
}

/// How many calls about the lock the command made, and whether it had a device although the lock
/// was replaced before the `at`-th.
fn replaced_at(words: &str, side: i64, refused: i32, at: usize) -> (usize, bool) {
    let sandbox = Sandbox::new("gpus4");
    let lock = sandbox.lock();
    let (mut command, _, err) = sandbox.words(words).parts();
    let (mut calls, mut point) = (0, None);
    let story = follow(&sandbox, &mut command, Some(side), |stop, call| {
        calls = stop.at + 1;
        if stop.at == at {
            std::fs::rename(&lock, sandbox.path("old")).unwrap();
            nix::unistd::mkfifo(&lock, Mode::from_bits_truncate(0o666)).unwrap();
            point = Some(call.point);
        }
        point.is_some()
    });
    let opens_it = story.calls.iter().any(|call| {
        let is_behind = call.point.process == 0 && point.is_some_and(|point| call.point > point);
        let to_claim = call.arguments[2] as i32 & O_ACCMODE == O_RDWR;
        is_behind
            && call.number == SYS_openat
            && to_claim
            && lock.as_os_str() == call.subject.as_str()
    });
    let said = written(&err);
    let status = if opens_it { refused } else { 0 };
    assert_eq!(story.status, status, "{words} at {at}: {said}");
    let told = said.contains("it was replaced while in use");
    assert_eq!(told, opens_it, "{words} at {at}: {said}");
    (calls, !opens_it)
}

/// Before the command has found whose the device is, it is a free one that is named; from then on
/// what it rests on has ended, whether it has claimed it or not.
#[test]
fn a_reservation_that_ends_gives_nothing_to_who_has_found_it() {
    if lacks_tracer() {
        return;
    }
    let (calls, _) = released_at(NOWHERE);
    let given: Vec<bool> = (0..calls).map(|at| released_at(at).1).collect();
    let first = given
        .iter()
        .position(|given| !given)
        .expect("one is refused");
    assert!(first > 0 && !given[first..].contains(&true), "{given:?}");
}

/// How many calls about the lock the command made, and whether it had the device whose
/// reservation ended before the `at`-th.
fn released_at(at: usize) -> (usize, bool) {
    let sandbox = Sandbox::new("gpus4");
    let uuid = sandbox.line("--for=60");
    let command = sandbox.words("cudawrap -- sim-cuda").visible(&uuid);
    let (mut command, _, err) = command.parts();
    let (mut calls, mut met) = (0, None);
    let story = follow(&sandbox, &mut command, Some(bytes::LEASE), |stop, _| {
        calls = stop.at + 1;
        if stop.at == at {
            sandbox.ask("--release-all -q").exits(0);
            met = Some(stop);
        }
        met.is_some()
    });
    let said = written(&err);
    let given = story.status == 0;
    let has_claimed = met.is_some_and(|stop| stop.has);
    assert!(!given || !has_claimed, "{met:?}: {said}");
    if !given {
        assert_eq!(story.status, 75, "{met:?}: {said}");
        assert!(said.contains("your reservation ended"), "{met:?}: {said}");
    }
    if at == NOWHERE {
        sandbox.ask("--release-all -q").exits(0);
    }
    sandbox.assert_clean();
    (calls, given)
}

/// The order is that of the numbers. Before its look at the queue a command is behind who joins,
/// from its number on before it; between them it may take what becomes free.
#[test]
fn who_joins_is_served_behind_who_has_a_number() {
    if lacks_tracer() {
        return;
    }
    let served: Vec<Served> = (0..MOST).map_while(joined_at).collect();
    assert_eq!(served.first(), Some(&Served::Behind), "{served:?}");
    assert_eq!(served.last(), Some(&Served::Before), "{served:?}");
}

/// When a command is served, by what it has of the queue when another joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    Behind,
    Either,
    Before,
}

/// Calls about the lock in which a command has begun to wait.
const MOST: usize = 20;

/// A head of the queue that leaves a free device alone for so long counts as stopped, and
/// the next one takes the device.
const LEFT_ALONE: Duration = Duration::from_millis(1300);

/// When the command is served, if another joins before its `at`-th call about the lock and the
/// device becomes free; none if it waits by then.
fn joined_at(at: usize) -> Option<Served> {
    let sandbox = Sandbox::new("h200x1");
    // No child of this process: the tracer waits for all of those.
    let start = |words: &str| {
        let script = format!("{words} >/dev/null 2>&1 & echo $!");
        let text = sandbox.shell("sh", &script).run().exits(0).line();
        Pid::from_raw(text.parse().unwrap())
    };
    let resident = start("cudawrap -- sim-cuda --run forever");
    sandbox.until_running(1);
    let probe = bytes::open(&sandbox);
    let command = sandbox.words("cudawrap --wait -- sim-cuda --tag own");
    let (mut command, _, err) = command.parts();
    let mut met = None;
    let story = follow(&sandbox, &mut command, None, |stop, _| {
        // It looks again and again while it waits.
        let waits = stop.at == MOST;
        if met.is_none() && (stop.at == at || waits) {
            let has_number = bytes::is_locked(&probe, bytes::NUMBERS, bytes::ALL_NUMBERS);
            if !waits {
                start("cudawrap --wait -- sim-cuda --tag other");
                wait::until("it waits", || {
                    let queue = listing::json(&sandbox)["queue"].to_string();
                    let some = bytes::is_locked(&probe, bytes::NUMBERS, bytes::ALL_NUMBERS);
                    some && queue.contains("--tag other")
                });
            }
            kill(resident, Signal::SIGKILL).unwrap();
            met = Some((waits, has_number, Instant::now()));
        }
        met.is_some()
    });
    let said = written(&err);
    assert_eq!(story.status, 0, "{at}: {said}");
    let served = || -> Vec<String> {
        let runs = sandbox.folder().runs().unwrap().into_iter();
        runs.map(|run| run.tag)
            .filter(|tag| ["own", "other"].contains(&tag.as_str()))
            .collect()
    };
    let (waits, has_number, freed) = met.expect("it came to the call");
    if waits {
        return None;
    }
    wait::until("both were served", || served().len() == 2);
    let is_first = served().first().is_some_and(|tag| tag == "own");
    let rule = match (at, has_number) {
        (0, _) => Served::Behind,
        (_, false) => Served::Either,
        (_, true) => Served::Before,
    };
    let right = rule == Served::Either || is_first == (rule == Served::Before);
    if !right && story.ended - freed >= LEFT_ALONE {
        // It was a head that is stopped, by a machine with more to do than it can.
        return joined_at(at);
    }
    assert!(right, "{at}: not {rule:?}: {:?}: {said}", served());
    sandbox.assert_clean();
    Some(rule)
}
