//! Sequences in time: a command is stopped before one of its system calls, a rival acts, and
//! the command goes on. Whatever the moment, no device has two programs, nothing is left
//! behind, and the command ends as the table of rivals says: what takes nothing from it makes
//! no difference. At some of the calls; in full size at each.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{all_at_once, somebody};
use harness::size;
use harness::{Command, Sandbox, Signal, wait, written};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::{is_one_of, lacks_tracer};

/// What stands before the command starts.
const SETTINGS: &str = "linger = '50ms'\nreserve_for = '5s'";
/// How many commands are followed at a time: few enough that none takes as long as NVML may.
const FOLLOWERS: usize = 16;

/// What is done between two calls of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    /// A program on one of the devices is killed.
    Exits,
    /// Another program takes a device and runs on it.
    Confirms,
    /// Another user reserves all that is free, for programs that have not started.
    Reserves,
    /// A program on a device is stopped: it keeps what it has.
    Stops,
    /// The site drains a device.
    Drains,
    /// All reservations of the user are released.
    Releases,
    /// The lock's directory is replaced by an empty one.
    ReplacesLock,
    /// A call joins the queue for all four devices, and keeps what becomes free.
    Waits,
    /// The program's path gets its program back, and is wrapped again.
    Wraps,
}

#[rustfmt::skip]
const RIVALS: [Rival; 9] = [
    Rival::Exits, Rival::Confirms, Rival::Reserves, Rival::Stops, Rival::Drains, Rival::Releases,
    Rival::ReplacesLock, Rival::Waits, Rival::Wraps,
];

/// A command, on a node with four devices of which one is in use.
struct Case {
    name: &'static str,
    command: fn(&Sandbox) -> Command,
    /// How it ends where no device is left for it, and where its lock is not the lock.
    refused: [i32; 2],
}

impl Case {
    /// The ends that it may come to beside 0.
    fn may_end(&self, rival: Option<Rival>) -> &[i32] {
        let [none_free, _] = &self.refused;
        match rival {
            // They take nothing from it: at least two devices stay free.
            None | Some(Rival::Exits | Rival::Stops | Rival::Wraps) => &[],
            // It may take the one that is named, and no other that is wanted.
            Some(Rival::Confirms) if self.name != "named" => &[],
            Some(Rival::Confirms | Rival::Reserves | Rival::Waits) => {
                std::slice::from_ref(none_free)
            }
            Some(Rival::Drains | Rival::Releases | Rival::ReplacesLock) => &self.refused,
        }
    }
}

#[rustfmt::skip]
const CASES: [Case; 9] = [
    Case { name: "getgpu", command: |s| s.shell("sh", "d=$(getgpu) || exit $?; CUDA_VISIBLE_DEVICES=$d sim-cuda"), refused: [1, 4] },
    Case { name: "by name", command: |s| s.words("cudawrap -- sim-cuda"), refused: [75, 125] },
    Case { name: "by link", command: |s| s.command(wrap(s, "opt", "app", "sim-cuda")), refused: [75, 125] },
    Case { name: "named", command: |s| s.words("cudawrap -- sim-cuda").visible(s.line("--no-reserve")), refused: [75, 125] },
    Case { name: "in a lease", command: |s| s.words("cudawrap -- cudawrap -- sim-cuda"), refused: [75, 125] },
    Case { name: "in a reservation", command: |s| s.words("cudawrap -- sim-cuda").visible(s.line("--for=60")), refused: [75, 125] },
    Case { name: "a rank", command: |s| s.words("cudawrap -- sim-cuda").env("PMI_RANK", "1").env("PMI_LOCAL_RANK", "1").env("PMI_LOCAL_SIZE", "2"), refused: [75, 125] },
    Case { name: "two devices", command: |s| s.words("cudawrap -n 2 -- sim-cuda"), refused: [75, 125] },
    Case { name: "a share", command: |s| s.words("cudawrap --share 1/2 -- sim-cuda --shared"), refused: [75, 125] },
];

fn is_program(pid: i32) -> bool {
    is_one_of(pid, &["sim-cuda", "CUDAWRAP_app"])
}

/// A program on a device of its own, or none where none is free. It is no child of this
/// process: the tracer waits for all of those.
fn resident(sandbox: &Sandbox) -> Option<Pid> {
    let script = "cudawrap -q -- sim-cuda --run forever >/dev/null 2>&1 & echo $!";
    let text = sandbox.shell("sh", script).run().exits(0).line();
    let pid = Pid::from_raw(text.parse().unwrap());
    // A program that has ended may stay a zombie, which has no executable.
    let gone = || std::fs::read_link(format!("/proc/{pid}/exe")).is_err();
    let is_it = |one: &sim_node::Record| one.pid == pid.as_raw().cast_unsigned();
    wait::until("it runs, or found none", || {
        let running = sandbox.folder().running().unwrap_or_default();
        running.iter().any(is_it) || gone()
    });
    (!gone()).then_some(pid)
}

/// What a rival has got.
#[derive(Default)]
struct Gains {
    program: Option<Pid>,
    /// Reserved devices, on which no program starts.
    devices: Vec<String>,
}

impl Rival {
    /// Acts; what it has from now on.
    fn act(self, sandbox: &Sandbox, resident: Pid) -> Gains {
        let mut gains = Gains::default();
        match self {
            Self::Exits => kill(resident, Signal::SIGKILL).unwrap(),
            Self::Confirms => gains.program = self::resident(sandbox),
            Self::Reserves => {
                let given = ["3", "2", "1"]
                    .map(|count| somebody(sandbox, &["--for=60", "-n", count]).run().stdout);
                let given = given.iter().flat_map(|given| given.trim().split(','));
                gains.devices = given.map(str::to_owned).collect();
            }
            Self::Stops => kill(resident, Signal::SIGSTOP).unwrap(),
            Self::Drains => {
                let drained = &sandbox.uuids()[2];
                sandbox.set_settings(&format!("{SETTINGS}\nexcluded = ['{drained}']"));
            }
            Self::Releases => drop(sandbox.ask("--release-all -q")),
            Self::ReplacesLock => {
                let directory = sandbox.lock().parent().unwrap().to_owned();
                std::fs::rename(&directory, sandbox.path("old-lock")).unwrap();
                std::fs::create_dir(&directory).unwrap();
            }
            Self::Waits => {
                let script = "cudawrap -q -n 4 --wait -- sim-cuda >/dev/null 2>&1 & echo $!";
                let text = sandbox.shell("sh", script).run().exits(0).line();
                gains.program = Some(Pid::from_raw(text.parse().unwrap()));
                wait::until("it waits", || sandbox.line("--queue --json") != "[]");
            }
            Self::Wraps => {
                let [path, program] = ["opt/app", "opt/CUDAWRAP_app"].map(|at| sandbox.path(at));
                if program.exists() {
                    // The steps of create-cudawrap, which would note the path in root's list.
                    let link = std::fs::read_link(&path).unwrap();
                    std::fs::rename(&program, &path).unwrap();
                    std::fs::hard_link(&path, &program).unwrap();
                    std::os::unix::fs::symlink(link, sandbox.path("opt/new")).unwrap();
                    std::fs::rename(sandbox.path("opt/new"), &path).unwrap();
                }
            }
        }
        gains
    }
}

/// Runs the command once, with the rival before its `at`-th call that may be one about the
/// lock (fcntl(2)); gives how many it made.
fn run(case: &Case, rival: Option<Rival>, at: usize) -> usize {
    let what = format!("{}, {rival:?} at call {at}", case.name);
    let sandbox = Sandbox::with("gpus4", SETTINGS);
    let resident = resident(&sandbox).expect("four devices are free");
    let command = (case.command)(&sandbox);
    let (mut command, _, err) = command.parts();
    let (mut calls, mut gains) = (0, Gains::default());
    let story = inject::watch(&mut command, is_program, |call| {
        if call.number != nix::libc::SYS_fcntl {
            return;
        }
        if calls == at
            && let Some(rival) = rival
        {
            gains = rival.act(&sandbox, resident);
        }
        calls += 1;
    });
    let said = written(&err);
    assert!(!story.hung, "{what}: it does not end");
    let status = story.status;
    let is_right = status == 0 || case.may_end(rival).contains(&status);
    assert!(is_right, "{what}: {status}: {said}");
    if status != 0 {
        assert!(said.contains(": "), "{what}: without a line: {said}");
    }
    // Programs under two locks do not see each other, which is why it is root's.
    if rival != Some(Rival::ReplacesLock) {
        sandbox.assert_exclusive();
        for run in sandbox.folder().runs().unwrap() {
            assert!(!gains.devices.contains(&run.uuid), "{what}: {said}");
        }
    }
    for program in gains.program.into_iter().chain([resident]) {
        let _ = kill(program, Signal::SIGKILL);
    }
    sandbox.ask("--release-all -q");
    sandbox.assert_clean();
    calls
}

/// Which rivals act against the command, and before which of its calls: in full size each before
/// each.
fn meetings(case: &'static Case) -> Vec<(&'static Case, Rival, usize)> {
    let calls = run(case, None, 0);
    println!("{}: {calls} calls", case.name);
    let is_root = nix::unistd::geteuid().is_root();
    let mut meetings = Vec::new();
    for rival in RIVALS {
        if rival == Rival::Reserves && !is_root {
            continue;
        }
        // What is taken between a look and a claim has to be seen at once.
        let points = if rival == Rival::Reserves { 10 } else { 1 };
        let points = size(points, calls).clamp(1, calls);
        // Each rival at other calls.
        let shift = calls * (rival as usize) / (points * RIVALS.len());
        meetings.extend((0..points).map(|point| (case, rival, calls * point / points + shift)));
    }
    meetings
}

#[test]
fn a_rival_between_two_calls_of_a_command_gets_no_device_twice() {
    if lacks_tracer() {
        return;
    }
    let all = Mutex::new(Vec::new());
    // Each follows what it has started from a thread of its own.
    all_at_once(&CASES, |case| {
        let meetings = meetings(case);
        all.lock().unwrap().extend(meetings);
    });
    let all = all.into_inner().unwrap();
    println!("{} rivals", all.len());
    let next = AtomicUsize::new(0);
    all_at_once(0..FOLLOWERS, |_| {
        while let Some((case, rival, at)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            run(case, Some(*rival), *at);
        }
    });
}
