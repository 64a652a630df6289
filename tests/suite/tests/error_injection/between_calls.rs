//! What others see, and do, between two system calls of a command: the tracer stops it
//! before each. A device that a user is about to have is counted at every moment, and a
//! reservation that ends while a device is chosen from it gives nothing.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, all_at_once, bytes, ending, somebody};
use harness::size;
use harness::skip::{self, Need};
use harness::{Command, Sandbox, Signal, wait, written};
use inject::Call;
use nix::libc::{F_RDLCK, F_UNLCK, SYS_sendto, SYS_write};
use nix::sys::signal::kill;
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use super::{is_one_of, lacks_tracer};

fn is_program(pid: i32) -> bool {
    is_one_of(pid, &["true", "CUDAWRAP_app"])
}

fn is_holder(pid: &&i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name == "getgpu-hold\n")
}

/// Follows `command` and calls `look` before each system call; its exit status, and what it wrote.
fn watch(command: Command, look: impl FnMut(&Call)) -> (i32, String) {
    let (mut command, out, err) = command.parts();
    let story = inject::watch(&mut command, is_program, look);
    assert!(!story.hung, "it does not end");
    (story.status, written(&out) + &written(&err))
}

/// From the claim on, either the user's other calls may not count, or they see whose the
/// claimed units are: else two calls at one instant are both within `max_per_user`.
#[test]
fn a_claimed_device_is_counted_until_the_program_has_it() {
    if lacks_tracer() || skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::with("mig4", "max_per_user = 2\nlinger = '50ms'");
    let uid = i64::from(OTHER);
    let probe = bytes::open(&sandbox);
    let uuids = sandbox.uuids();
    let spans: Vec<i64> = uuids.iter().map(|uuid| bytes::span(uuid)).collect();
    #[rustfmt::skip]
    let cases = [
        (bytes::LEASE, bytes::LEASE_UIDS, &["cudawrap", "--", "true"][..]),
        (bytes::LEASE, bytes::LEASE_UIDS, &["cudawrap", "--share", "1/2", "--", "true"]),
        (bytes::RESERVATION, bytes::RESERVATION_UIDS, &["getgpu", "--for", "0.1"]),
    ];
    for (side, uids, words) in cases {
        let (mut claimed, mut uncounted) = (0, 0);
        let look = |_: &Call| {
            for span in &spans {
                if !bytes::is_locked(&probe, span + side, bytes::UNITS) {
                    continue;
                }
                claimed += 1;
                let counted = bytes::is_locked(&probe, bytes::COUNTING_UIDS + uid, 1)
                    || bytes::is_locked(&probe, span + uids + uid, 1);
                uncounted += usize::from(!counted);
            }
        };
        let command = sandbox.command(words[0]).args(&words[1..]).uid(OTHER);
        let (status, said) = watch(command, look);
        assert_eq!(status, 0, "{words:?}: {said}");
        assert!(claimed > 10, "{words:?}: {claimed} moments with a claim");
        assert_eq!(uncounted, 0, "{words:?}: of {claimed} moments");
        sandbox.assert_clean();
    }
}

/// A getgpu that cannot print waits until its holder has closed descriptor 4, and by then
/// the lock, descriptor 3, is closed. While a process exits, its table of descriptors is
/// gone before the first of them is closed: that says nothing of their order.
#[test]
fn a_holder_that_was_not_printed_gives_its_lock_up_first() {
    if lacks_tracer() {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let (mut moments, mut early, mut pids) = (0, 0, BTreeSet::new());
    let look = |call: &Call| {
        // All processes of the machine at each call would take minutes on a slow one.
        pids.insert(call.pid);
        for pid in pids.iter().filter(is_holder) {
            let is_open = |descriptor: i32| {
                std::fs::symlink_metadata(format!("/proc/{pid}/fd/{descriptor}")).is_ok()
            };
            let waits = is_open(4);
            moments += usize::from(waits);
            early += usize::from(!waits && is_open(3) && sandbox.locked());
        }
    };
    let (status, said) = watch(sandbox.shell("sh", "getgpu >/dev/full"), look);
    assert!(!sandbox.locked(), "getgpu has ended before its reservation");
    assert_eq!(status, 4, "{said}");
    assert!(moments > 10, "{moments} moments with a holder");
    assert_eq!(early, 0, "of {moments} moments");
}

/// What is around a call, a reservation or a lease of this process, ends when the first
/// device inside it has been claimed, or confirmed, and another user is given that device.
/// A linked program chooses inside a reservation only in a batch job that has GPUs and no
/// CUDA_VISIBLE_DEVICES.
#[test]
fn what_ends_during_the_choice_gives_no_device() {
    if lacks_tracer() {
        return;
    }
    #[rustfmt::skip]
    let cases = [
        (&["cudawrap", "--", "true"][..], Around::Reservation, 75),
        (&["cudawrap", "-n", "2", "--", "true"], Around::Reservation, 75),
        (&["app"], Around::Job, 75),
        (&["getgpu", "--for=60"], Around::Reservation, 1),
        (&["cudawrap", "--", "true"], Around::Lease, 75),
        (&["getgpu", "--for=60"], Around::Lease, 1),
    ];
    for (words, around, status) in cases {
        for at in [bytes::is_locked, bytes::is_confirmed] {
            end_what_is_around(words, around, status, at);
        }
    }
}

/// Two calls find no lock, and both make one: the second takes what the first has made.
#[test]
fn a_lock_that_was_made_meanwhile_is_not_replaced() {
    if lacks_tracer() {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    std::fs::remove_file(sandbox.lock()).unwrap();
    let mut first = None;
    let (status, second) = watch(sandbox.words("getgpu --for=1"), |call| {
        if call.number == nix::libc::SYS_mknodat && first.is_none() {
            let device = sandbox.ask("--for=5").exits(0).line();
            first = Some((device, std::fs::metadata(sandbox.lock()).unwrap().ino()));
        }
    });
    let (device, inode) = first.expect("the lock is made");
    assert_eq!((status, second.lines().count()), (0, 1), "{second}");
    assert_ne!(second.trim(), device);
    assert_eq!(std::fs::metadata(sandbox.lock()).unwrap().ino(), inode);
}

/// Root puts another lock in the place of the one that a call has looked at: programs on
/// two locks do not exclude each other.
#[test]
fn a_lock_that_is_replaced_meanwhile_gives_nothing() {
    if lacks_tracer() {
        return;
    }
    for (words, status) in [("getgpu --for=0.1", 4), ("cudawrap -- true", 125)] {
        // Before its first look at the lock, and after its last one, it needs no other.
        let refused = (0..8).filter(|at| {
            let sandbox = Sandbox::new("mig4");
            let lock = sandbox.lock();
            let mut calls = 0;
            let (found, said) = watch(sandbox.words(words), |call| {
                if call.number != nix::libc::SYS_fcntl {
                    return;
                }
                if calls == *at {
                    std::fs::rename(&lock, sandbox.path("old")).unwrap();
                    nix::unistd::mkfifo(&lock, Mode::from_bits_truncate(0o666)).unwrap();
                }
                calls += 1;
            });
            assert!(found == 0 || found == status, "{words}: {said}");
            found == status && said.contains("it was replaced while in use")
        });
        assert!(refused.count() > 0, "{words}");
    }
}

/// The holder of a reservation whose process has exited goes on, and exits, before one of the
/// calls about the lock: at whatever call, its device is had.
#[test]
fn a_reservation_that_is_ending_keeps_its_device_from_nobody() {
    if lacks_tracer() {
        return;
    }
    #[rustfmt::skip]
    let cases: [&[&str]; 3] = [
        &["cudawrap", "--", "true"], &["cudawrap", "named", "true"], &["getgpu", "--for=0.1"],
    ];
    all_at_once(cases, |words| {
        let calls = ended_before(words, usize::MAX);
        for at in (0..=calls).step_by(size(8, 1)) {
            ended_before(words, at);
        }
    });
}

/// Runs a command while a reservation is ending, which does so before the `at`-th call about
/// the lock; how many of these there are before the command begins to wait.
fn ended_before(words: &[&str], at: usize) -> usize {
    let is_named = words.contains(&"named");
    // A MIG device that is named is leased without a question to NVML.
    let node = if is_named { "mig4" } else { "h200x1" };
    // As long as a followed command waits on a busy machine.
    let sandbox = Sandbox::with(node, "linger = '60s'");
    let (uuid, holder) = ending(&sandbox);
    let mut command = sandbox.command(words[0]);
    command = match words {
        [_, "named", program] => command.args(["--", program]).visible(&uuid),
        [_, rest @ ..] => command.args(rest),
        [] => command,
    };
    let (mut command, ..) = command.parts();
    let (mut calls, mut waits, mut ended) = (0, false, false);
    let story = inject::watch(&mut command, is_program, |call| {
        waits |= call.number == nix::libc::SYS_clock_nanosleep;
        // One run may make some calls fewer than the next.
        if !ended && (calls == at || waits) {
            ended = true;
            kill(holder, Signal::SIGCONT).unwrap();
            wait::until("it has exited", || sandbox.holders().is_empty());
        }
        calls += usize::from(call.number == nix::libc::SYS_fcntl && !waits);
    });
    assert_eq!(story.status, 0, "{words:?} at {at}: {story:#?}");
    let _ = kill(holder, Signal::SIGCONT);
    calls
}

/// What ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    Reservation,
    /// One in a batch job.
    Job,
    Lease,
}

fn end_what_is_around(
    words: &[&str],
    around: Around,
    status: i32,
    at: fn(&std::fs::File, i64, i64) -> bool,
) {
    let sandbox = Sandbox::new("gpus4");
    let linked = wrap(&sandbox, "work", "app", "probe");
    let (probe, ancestor) = (bytes::open(&sandbox), bytes::open(&sandbox));
    let ours = sandbox.uuids()[..2].join(",");
    let regions = [bytes::INNER_LEASE, bytes::INNER_RESERVATION, bytes::LEASE];
    let regions = if around == Around::Lease {
        for uuid in ours.split(',') {
            let start = bytes::span(uuid) + bytes::LEASE;
            bytes::lock(&ancestor, F_RDLCK, start, bytes::UNITS).unwrap();
        }
        &regions[..2]
    } else {
        let options = ["-n", "2", "--for=600", "--gpu", "0", "--gpu", "1"];
        sandbox.getgpu(options).run().line();
        &regions
    };
    let claimed = || {
        ours.split(',').find(|uuid| {
            let mut regions = regions.iter();
            regions.any(|region| at(&probe, bytes::span(uuid) + region, bytes::UNITS))
        })
    };
    let mut given = None;
    let look = |_: &Call| {
        if given.is_none()
            && let Some(uuid) = claimed()
        {
            sandbox.ask("--release-all").exits(0);
            bytes::lock(&ancestor, F_UNLCK, 0, 0).unwrap();
            let words = ["--ignore-grant", "--for=60", "--gpu", uuid];
            given = Some(somebody(&sandbox, &words).run().code());
        }
    };
    let command = if around == Around::Job {
        let command = sandbox.command(&linked).env("SLURM_JOB_ID", "7");
        command.env("SLURM_JOB_GPUS", "0,1")
    } else {
        let command = sandbox.command(words[0]).args(&words[1..]);
        command.visible(&ours)
    };
    let (ended, said) = watch(command, look);
    let what = format!("{words:?}, {around:?}, {given:?}: {said}");
    assert!(given.is_some(), "nothing was claimed: {what}");
    assert_eq!(ended, status, "{what}");
    assert!(said.contains("your reservation ended"), "{what}");
}

/// A share that begins when NVML is asked makes the device busy, which is no reason
/// against another share.
#[test]
fn a_share_that_begins_during_the_choice_leaves_room() {
    if lacks_tracer() {
        return;
    }
    let sandbox = Sandbox::new("h200x1");
    let probe = bytes::open(&sandbox);
    let lease = bytes::span(&sandbox.uuids()[0]) + bytes::LEASE;
    let mut begun = false;
    let look = |call: &Call| {
        if !begun && call.number == SYS_sendto && bytes::is_locked(&probe, lease, bytes::UNITS) {
            begun = true;
            let sharer = "cudawrap --share 1/2 -- sim-cuda --shared --until-file over >&2 &";
            sandbox.shell("sh", sharer).run().exits(0);
            sandbox.until_running(1);
        }
    };
    let command = sandbox.words("cudawrap --share 1/2 -- true");
    let (status, said) = watch(command, look);
    assert!(begun, "nothing was claimed");
    assert_eq!(status, 0, "{said}");
    sandbox.file("work/over", "", 0o644);
}

/// Else two calls at one instant could have numbers in another order than they came, or
/// each a half of what both want.
#[test]
fn numbers_and_several_devices_are_taken_by_one_call_at_a_time() {
    if lacks_tracer() {
        return;
    }
    for (words, byte) in [
        ("cudawrap --wait=0.01 -- true", bytes::DISPENSER),
        ("cudawrap -n 2 -- true", bytes::SEVERAL),
        ("cudawrap --share 1/2 -- true", bytes::SEVERAL),
    ] {
        let sandbox = Sandbox::new("gpus4");
        let taken = if byte == bytes::DISPENSER {
            sandbox.line("-q -n 4 --for=60");
            vec![(bytes::NUMBERS, bytes::ALL_NUMBERS)]
        } else {
            let uuids = sandbox.uuids().into_iter();
            let starts = uuids.map(|uuid| bytes::span(&uuid) + bytes::LEASE);
            starts.map(|start| (start, bytes::UNITS)).collect()
        };
        let probe = bytes::open(&sandbox);
        let mut held = None;
        let look = |_: &Call| {
            let mut taken = taken.iter();
            let any = taken.any(|(start, length)| bytes::is_locked(&probe, *start, *length));
            if held.is_none() && any {
                held = Some(bytes::is_locked(&probe, byte, 1));
            }
        };
        watch(sandbox.words(words), look);
        assert_eq!(held, Some(true), "{words}");
    }
}

/// A holder that is not told that its device was printed ends: a signal that comes while it
/// is printed waits until the holder knows.
#[test]
fn a_signal_behind_the_answer_leaves_the_reservation() {
    if lacks_tracer() {
        return;
    }
    let sandbox = Sandbox::new("h200x1");
    let (mut sent, mut last) = (None, Instant::now());
    let look = |call: &Call| {
        last = Instant::now();
        if call.number == SYS_write && call.arguments[0] == 1 && sent.is_none() {
            kill(Pid::from_raw(call.pid), Signal::SIGTERM).unwrap();
            sent = Some(last);
        }
    };
    watch(sandbox.words("getgpu --for=3"), look);
    // The holder's calls are looked at, too.
    let lasted = last - sent.expect("it was printed");
    assert!(lasted > Duration::from_secs(1), "{lasted:?}");
}
