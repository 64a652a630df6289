//! The calls of a command about the lock, each a row: what the command holds of a device when
//! it stands there. At each of them another acts on that very device, and who had the device
//! at that moment says how both end.

use std::fs::File;

use getgpu_tests::{all_at_once, as_other_user, bytes};
use harness::{Command, Sandbox, Signal, full, wait, written};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::{is_one_of, lacks_tracer};

/// The part of the lock that a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    /// Who may choose several devices, or a part of one.
    Several,
    /// The numbers of those who wait.
    Tickets,
    Lease,
    Reservation,
    /// The reservations inside a reservation.
    InnerReservation,
    /// For which waiter a device is kept.
    Kept,
    /// The units of reservations that are ending.
    Lingering,
    /// By whom, and by which process, a device is leased or reserved.
    Owner,
    /// None that has a row.
    Other,
}

/// What the command has of the device when it stands before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Nothing,
    Device,
    /// It stands there before its claim, and again behind it.
    Either,
}

use Holds::{Device, Either, Nothing};
use Region::*;

/// Where a command may stand: its call, what the call is about, and what it holds there. A call
/// that has no row fails the test: what others may do at it has to be thought of first.
#[rustfmt::skip]
const STOPS: [(&str, Region, Holds); 16] = [
    // The look whether others wait comes first, the right to choose several before any look.
    ("F_OFD_GETLK", Tickets, Nothing),
    ("F_WRLCK", Several, Nothing),
    // Whether it is held or kept; of the units that are claimed the other side once more.
    ("F_OFD_GETLK", Lease, Either),
    ("F_OFD_GETLK", Reservation, Either),
    ("F_OFD_GETLK", Kept, Nothing),
    ("F_OFD_GETLK", InnerReservation, Device),
    // The claim.
    ("F_WRLCK", Lease, Nothing),
    ("F_WRLCK", Reservation, Nothing),
    // The confirmation, and who it is.
    ("F_RDLCK", Lease, Device),
    ("F_RDLCK", Reservation, Device),
    ("F_RDLCK", Owner, Device),
    ("F_OFD_GETLK", Owner, Device),
    // Behind a choice in vain: whether what is reserved ends soon.
    ("F_OFD_GETLK", Lingering, Nothing),
    // What was claimed in vain, or is held by another process from now on.
    ("F_UNLCK", Lease, Device),
    ("F_UNLCK", Reservation, Device),
    ("F_UNLCK", Several, Either),
];

/// Which region a byte is in, and which of the devices it belongs to.
fn place(spans: &[i64], start: i64) -> (Region, Option<usize>) {
    let device = spans.iter().position(|span| start & !(SPAN - 1) == *span);
    let Some(device) = device else {
        let tickets = bytes::NUMBERS..bytes::NUMBERS + bytes::ALL_NUMBERS;
        let region = match start {
            bytes::SEVERAL => Several,
            _ if tickets.contains(&start) => Tickets,
            _ => Other,
        };
        return (region, None);
    };
    let offset = start - spans[device];
    let starts = [
        (bytes::LEASE, Lease),
        (bytes::KEPT, Kept),
        (bytes::RESERVATION, Reservation),
        (bytes::INNER_LEASE, Other),
        (bytes::INNER_RESERVATION, InnerReservation),
        (bytes::LINGERING, Lingering),
        (bytes::LEASE_PIDS, Owner),
    ];
    let region = starts.iter().rev().find(|(start, _)| offset >= *start);
    (region.map_or(Other, |(_, region)| *region), Some(device))
}

/// The bytes of a span.
const SPAN: i64 = 1 << 34;

/// What another user does while the command stands before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    /// Takes the device, and has it to the end.
    Takes,
    /// Takes it, and its program ends at once.
    TakesAndEnds,
    /// Takes it, and its program is killed.
    TakesAndIsKilled,
    /// Reserves it.
    Reserves,
    /// Joins the queue for it, behind the command.
    Waits,
}

const ACTORS: [Actor; 5] = [
    Actor::Takes,
    Actor::TakesAndEnds,
    Actor::TakesAndIsKilled,
    Actor::Reserves,
    Actor::Waits,
];

/// A command, how many devices it wants, and how it ends where it gets none.
struct Case {
    name: &'static str,
    command: fn(&Sandbox, &str) -> Command,
    wants: usize,
    refused: i32,
    /// The side of the lock on which it claims.
    side: i64,
}

#[rustfmt::skip]
const CASES: [Case; 6] = [
    Case { name: "any", command: |s, _| s.words("cudawrap -- sim-cuda"), wants: 1, refused: 75, side: bytes::LEASE },
    Case { name: "named", command: |s, uuid| s.words("cudawrap -- sim-cuda").visible(uuid), wants: 1, refused: 75, side: bytes::LEASE },
    Case { name: "reserved", command: |s, uuid| s.words("cudawrap -- sim-cuda").visible(s.line(&format!("--for=60 --gpu={uuid}"))), wants: 1, refused: 75, side: bytes::LEASE },
    Case { name: "getgpu", command: |s, _| s.words("getgpu --for=0.5"), wants: 1, refused: 1, side: bytes::RESERVATION },
    Case { name: "two", command: |s, _| s.words("cudawrap -n 2 -- sim-cuda"), wants: 2, refused: 75, side: bytes::LEASE },
    Case { name: "share", command: |s, _| s.words("cudawrap --share 1/2 -- sim-cuda --shared"), wants: 1, refused: 75, side: bytes::LEASE },
];

/// What the actor came to.
struct Acted {
    /// Whether it got the device.
    got: bool,
    /// What of it runs on.
    program: Option<Pid>,
}

/// The process of a program of another user that stays; none if it was refused.
fn stays(sandbox: &Sandbox, words: &str) -> Option<Pid> {
    // No child of this process: the tracer waits for all of those.
    let script = format!("{words} >/dev/null 2>&1 & echo $!");
    let outcome = as_other_user(sandbox.shell("sh", &script)).run();
    let pid = Pid::from_raw(outcome.exits(0).line().parse().unwrap());
    // A program that has ended may stay a zombie, which has no executable.
    let gone = || std::fs::read_link(format!("/proc/{pid}/exe")).is_err();
    let runs = || {
        let running = sandbox.folder().running().unwrap_or_default();
        running
            .iter()
            .any(|one| one.pid == pid.as_raw().cast_unsigned())
    };
    wait::until("it runs, or was refused", || runs() || gone());
    (!gone()).then_some(pid)
}

impl Actor {
    fn act(self, sandbox: &Sandbox, uuid: &str, probe: &File) -> Acted {
        let takes = format!("CUDA_VISIBLE_DEVICES={uuid} exec cudawrap -- sim-cuda --run forever");
        let program = match self {
            Self::Takes => stays(sandbox, &takes),
            Self::TakesAndEnds => {
                let command = sandbox.words("cudawrap -- true").visible(uuid);
                let status = as_other_user(command).run().code();
                assert!(status == Some(0) || status == Some(75), "{status:?}");
                let got = status == Some(0);
                return Acted { got, program: None };
            }
            Self::TakesAndIsKilled => {
                let program = stays(sandbox, &takes);
                if let Some(pid) = program {
                    kill(pid, Signal::SIGKILL).unwrap();
                    let lease = bytes::span(uuid) + bytes::LEASE;
                    wait::until("its lock is free", || {
                        !bytes::is_locked(probe, lease, bytes::UNITS)
                    });
                }
                let got = program.is_some();
                return Acted { got, program: None };
            }
            Self::Reserves => {
                let options = ["--for=60", "-q", "--gpu", uuid];
                let outcome = as_other_user(sandbox.getgpu(options)).run();
                let got = outcome.code() == Some(0);
                return Acted { got, program: None };
            }
            Self::Waits => {
                let script = "cudawrap -q --wait -- true >/dev/null 2>&1 & echo $!";
                let outcome = as_other_user(sandbox.shell("sh", script)).run();
                let pid = Pid::from_raw(outcome.exits(0).line().parse().unwrap());
                // It is given what is free at once, and waits otherwise.
                wait::until("it waits, or is over", || {
                    let gone = std::fs::read_link(format!("/proc/{pid}/exe")).is_err();
                    gone || sandbox.line("--queue --json") != "[]"
                });
                Some(pid)
            }
        };
        Acted {
            got: program.is_some(),
            program,
        }
    }

    /// Whether it has the device, once it got it, until after the command's end.
    fn keeps(self) -> bool {
        matches!(self, Self::Takes | Self::Reserves)
    }

    /// Whether it asks for the device that the command is about to have.
    fn wants_it(self) -> bool {
        matches!(
            self,
            Self::Takes | Self::TakesAndEnds | Self::TakesAndIsKilled | Self::Reserves
        )
    }
}

/// One run of a command, with the actor before its `at`-th call about the lock; how many of these
/// it made.
fn run(case: &Case, spare: bool, actor: Option<Actor>, at: usize) -> usize {
    let what = format!("{}, spare: {spare}, {actor:?} at {at}", case.name);
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let usable = if spare { 4 } else { case.wants };
    let excluded: Vec<_> = uuids[usable..]
        .iter()
        .map(|uuid| format!("'{uuid}'"))
        .collect();
    sandbox.set_settings(&format!("excluded = [{}]", excluded.join(", ")));
    let spans: Vec<i64> = uuids.iter().map(|uuid| bytes::span(uuid)).collect();
    let probe = bytes::open(&sandbox);
    let named = &uuids[0];
    let (mut command, out, err) = (case.command)(&sandbox, named).parts();
    let is_held =
        |device: usize, side| bytes::is_locked(&probe, spans[device] + side, bytes::UNITS);
    let mut calls = 0;
    let mut acted = None;
    let is_program = |pid| is_one_of(pid, &["sim-cuda", "true"]);
    let story = inject::watch(&mut command, is_program, |call| {
        let Some((start, _)) = inject::lock_range(call).filter(|_| call.point.process == 0) else {
            return;
        };
        let (region, device) = place(&spans, start);
        let kind = call.subject.split(' ').next().unwrap_or_default();
        let mut rows = STOPS.iter();
        let row = rows.find(|(of, about, _)| *of == kind && *about == region);
        let (.., holds) =
            row.unwrap_or_else(|| panic!("{what}: no row for {kind} of {region:?} at {start:#x}"));
        let device = device.unwrap_or(0);
        let has = is_held(device, case.side);
        if acted.is_none() {
            let as_said = *holds == Either || (*holds == Device) == has;
            assert!(as_said, "{what}: {kind} of {region:?} with {has}");
        }
        if calls == at
            && let Some(actor) = actor
        {
            let free = !is_held(device, bytes::LEASE) && !is_held(device, bytes::RESERVATION);
            acted = Some((
                actor,
                actor.act(&sandbox, &uuids[device], &probe),
                free,
                device,
                kind.to_owned(),
                region,
            ));
        }
        calls += 1;
    });
    let said = written(&err);
    assert!(!story.hung, "{what}: it does not end");
    let root = story.calls[0].pid;
    let mut had: Vec<String> = written(&out)
        .lines()
        .filter(|line| case.side == bytes::RESERVATION && !line.is_empty())
        .map(str::to_owned)
        .collect();
    for run in sandbox.folder().runs().unwrap() {
        if run.pid == root.cast_unsigned() {
            had.push(run.uuid.clone());
        }
    }
    let mut status = 0;
    if let Some((actor, acted, free, device, kind, region)) = &acted {
        let what = format!("{what} ({kind} {region:?}, device {device}, free: {free}): {said}");
        if actor.wants_it() {
            assert_eq!(acted.got, *free, "{what}");
        }
        if acted.got && actor.keeps() {
            assert!(!had.contains(&uuids[*device]), "{what}");
            if !spare || case.name == "named" {
                status = case.refused;
            }
        }
        assert_eq!(story.status, status, "{what}");
    }
    assert_eq!(story.status, status, "{what}: {said}");
    // Of several devices the program uses the first.
    assert_eq!(
        had.len(),
        usize::from(status == 0),
        "{what}: {had:?}: {said}"
    );
    sandbox.assert_exclusive();
    if let Some(pid) = acted.and_then(|(_, acted, ..)| acted.program) {
        let _ = kill(pid, Signal::SIGKILL);
    }
    sandbox.ask("--release-all -q");
    as_other_user(sandbox.getgpu(["--release-all", "-q"])).run();
    sandbox.assert_clean();
    calls
}

#[test]
fn who_has_a_device_at_a_stop_says_how_both_end() {
    if lacks_tracer() || harness::skip::lacks(&[harness::skip::Need::Root]) {
        return;
    }
    all_at_once(&CASES, |case| {
        for spare in [false, true] {
            let calls = run(case, spare, None, 0);
            for (number, actor) in ACTORS.into_iter().enumerate() {
                let every = if full() { 1 } else { 4 };
                for at in (number % every..calls).step_by(every) {
                    run(case, spare, Some(actor), at);
                }
            }
        }
    });
}
