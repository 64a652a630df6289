//! Another user acts on the very device of a command that stands before a call: who had the
//! device at that moment has it, and the other is told.

use std::fs::File;

use getgpu_tests::{all_at_once, as_other_user, bytes};
use harness::skip::{self, Need};
use harness::{Command, Sandbox, Signal, full, wait, written};
use inject::Story;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::{follow, lacks_tracer};

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
#[derive(Debug)]
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
    let excluded = uuids[usable..].iter().map(|uuid| format!("'{uuid}'"));
    let excluded: Vec<String> = excluded.collect();
    sandbox.set_settings(&format!("excluded = [{}]", excluded.join(", ")));
    let probe = bytes::open(&sandbox);
    let (mut command, out, err) = (case.command)(&sandbox, &uuids[0]).parts();
    let mut calls = 0;
    let mut met = None;
    let story = follow(&sandbox, &mut command, Some(case.side), |stop, _| {
        calls = stop.at + 1;
        if let Some(actor) = actor.filter(|_| stop.at == at) {
            let uuid = &uuids[stop.device];
            let is_held = |side| bytes::is_locked(&probe, bytes::span(uuid) + side, bytes::UNITS);
            let free = !is_held(bytes::LEASE) && !is_held(bytes::RESERVATION);
            met = Some((stop, free, actor, actor.act(&sandbox, uuid, &probe)));
        }
        met.is_some()
    });
    let said = written(&err);
    let what = format!("{what}: {met:?}: {said}");
    let mut status = 0;
    if let Some((_, free, actor, acted)) = &met {
        if actor.wants_it() {
            assert_eq!(acted.got, *free, "{what}");
        }
        let has_to_do_without = !spare || case.name == "named";
        if acted.got && actor.keeps() && has_to_do_without {
            status = case.refused;
        }
    }
    assert_eq!(story.status, status, "{what}");
    let had = had(&sandbox, case, &story, &written(&out));
    assert_eq!(had.len(), usize::from(status == 0), "{what}: {had:?}");
    if let Some((stop, _, actor, acted)) = &met
        && acted.got
        && actor.keeps()
    {
        assert!(!had.contains(&uuids[stop.device]), "{what}");
    }
    sandbox.assert_exclusive();
    if let Some(pid) = met.and_then(|(.., acted)| acted.program) {
        let _ = kill(pid, Signal::SIGKILL);
    }
    sandbox.ask("--release-all -q");
    as_other_user(sandbox.getgpu(["--release-all", "-q"])).run();
    sandbox.assert_clean();
    calls
}

/// The device that the command's program used, or that was printed. Of several it uses the first.
fn had(sandbox: &Sandbox, case: &Case, story: &Story, printed: &str) -> Vec<String> {
    if case.side == bytes::RESERVATION {
        return printed.lines().map(str::to_owned).collect();
    }
    let own = story.calls[0].pid.cast_unsigned();
    let runs = sandbox.folder().runs().unwrap().into_iter();
    runs.filter(|run| run.pid == own)
        .map(|run| run.uuid)
        .collect()
}

#[test]
fn who_has_a_device_at_a_stop_says_how_both_end() {
    if lacks_tracer() || skip::lacks(&[Need::Root]) {
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
