//! The ordinary traffic of a soak: programs of several users, in every way to a device, and
//! how a launch may end.

use std::path::PathBuf;
use std::time::Duration;

use harness::{Command, Outcome, Sandbox};

use super::disturb::{Kind, faketime};
use crate::OTHER;
use crate::random::Random;

/// How a program gets its device: the status that says that none is free, and a line for a
/// shell, in which RUN is a simulated program, which takes its tag; # is the launch's number.
pub(crate) type Way = (i32, &'static str);

#[rustfmt::skip]
const WAYS: [Way; 13] = [
    (75, "exec cudawrap -- RUN x#"),
    (75, "exec cudawrap --wait=10 -- RUN x#"),
    (75, "exec ../opt/app ARGS x#"),
    (100, "CUDA_INJECTION64_PATH=$HOOK exec RUN x#"),
    (75, "exec cudawrap --share 1/4 --wait=10 -- RUN q# --max 4"),
    (1, "exec getgpu --for=1"),
    (1, "(on --hold --tag soak#) || exit; sleep 0.1; exec getgpu --release soak#"),
    (1, "getgpu --list --json >/dev/null && exec getgpu --count-free"),
    (1, "on; exec RUN x#"),
    (1, "on --wait=10; RUN x#; exit $?"),
    (1, "on --hold; RUN x#; RUN x# || exit $?; : session"),
    (1, "on --share 1/4; exec RUN q# --max 4"),
    (1, "on -n 2 --wait=10; exec RUN x#"),
];

/// So many of these become one program without a fork.
const EXEC: u64 = 6;

/// A device, for the rest of the shell.
const ON: &str = "on() { d=$(getgpu \"$@\") || exit; export CUDA_VISIBLE_DEVICES=$d; }; ";

/// A simulated program with the limits of the caller lifted again, and the true clock.
const PROGRAM: &str = "#!/bin/bash\nunset LD_PRELOAD\nulimit -S -n 1024\nulimit -S -v hard\n\
                       ulimit -S -u hard\nexec sim-cuda \"$@\"\n";

/// What all launches of a soak share.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) random: Random,
    /// Where libfaketime reads by how many seconds its processes' clock is off.
    pub(crate) clock: PathBuf,
    pub(crate) launches: u64,
    program: PathBuf,
    hook: PathBuf,
    root: bool,
    /// The KiB of address space below which the kernel kills getgpu in its execve(2).
    least_space: u64,
}

impl Traffic {
    pub(crate) fn new(sandbox: &Sandbox, seed: u64) -> Self {
        let program = sandbox.file("opt/CUDAWRAP_app", PROGRAM, 0o755);
        std::os::unix::fs::symlink(sandbox.path("bin/cudawrap"), sandbox.path("opt/app"))
            .expect("a link");
        Self {
            random: Random::new(seed),
            clock: sandbox.file("opt/clock", "+0", 0o644),
            launches: 0,
            program,
            hook: crate::hooked::hook(sandbox),
            root: nix::unistd::geteuid().is_root(),
            least_space: least_space(sandbox),
        }
    }

    /// The next launch, as one of four users where this is root.
    pub(crate) fn next(&mut self, sandbox: &Sandbox, kind: &Kind) -> (Way, Command) {
        self.launches += 1;
        // A shell that cannot fork tries for a quarter of a minute.
        let no_forks = kind.name == "processes";
        let ways = if no_forks { EXEC } else { WAYS.len() as u64 };
        let way = WAYS[self.random.below(ways) as usize];
        let time = 200 + self.random.below(3000);
        let line = way
            .1
            .replace("RUN", &format!("{} ARGS", self.program.display()))
            .replace("ARGS", &format!("--init 20ms --run {time}ms --tag"))
            .replace('#', &self.launches.to_string());
        let limit = kind.limit.map_or(String::new(), |(letter, least, range)| {
            let least = if letter == 'v' {
                self.least_space
            } else {
                least
            };
            let limit = least + self.random.below(range);
            format!("ulimit -S -{letter} {limit}; ")
        });
        let user = self.random.below(4) as u32;
        // Only bash limits the number of processes.
        let mut command = sandbox
            .shell("bash", &format!("{limit}{ON}{line}"))
            .env("HOOK", &self.hook)
            .env("SOAK", "traffic")
            .limit(Duration::from_secs(90));
        if self.root && (user > 0 || no_forks) {
            command = command.uid(OTHER + user);
        }
        if let Some(library) = faketime().filter(|_| kind.name == "clock") {
            command = command.env("LD_PRELOAD", library);
            command = command.env("FAKETIME_TIMESTAMP_FILE", &self.clock);
            for word in ["NO_CACHE", "DISABLE_SHM", "DONT_FAKE_MONOTONIC"] {
                command = command.env(&format!("FAKETIME_{word}"), "1");
            }
        }
        (way, command)
    }
}

fn least_space(sandbox: &Sandbox) -> u64 {
    let starts = |kib: &u64| {
        let script = format!("ulimit -S -v {kib}; exec getgpu --version");
        sandbox.shell("bash", &script).run().signal().is_none()
    };
    let least = (1..).map(|step| 64 * step).find(starts);
    least.expect("an endless range")
}

/// How a launch ended (done, none free, refused, killed), or what is wrong with it.
pub(crate) fn judge(kind: &Kind, way: Way, outcome: &Outcome) -> Result<&'static str, String> {
    let wrong = |what: &str| Err(format!("{what}: {} {way:?} {outcome:?}", kind.name));
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let said = lines.iter().filter(|line| is_refusal(line)).count();
    if outcome.stderr.contains("panicked") || said > 2 {
        return wrong("a panic, or more than one line");
    }
    if !kind.others_speak && !lines.iter().all(|line| is_ours(line)) {
        return wrong("a line of another program");
    }
    let none = ["no free device: ", "too few free devices: "];
    let none = none.iter().any(|words| outcome.stderr.contains(words));
    match (outcome.code(), outcome.signal()) {
        (Some(0), _) => Ok("done"),
        (Some(code), _) if code == way.0 && none => Ok("without a device"),
        (Some(code), _) if kind.statuses.contains(&code) && (said > 0 || kind.others_speak) => {
            Ok("refused")
        }
        (None, Some(signal)) if kind.signal == Some(signal) => Ok("killed"),
        _ => wrong("an end that is not foreseen"),
    }
}

fn is_ours(line: &str) -> bool {
    line.starts_with("getgpu: ") || line.starts_with("cudawrap: ")
}

/// A line of the commands that is no hint, nor what a waiter says of its waiting.
fn is_refusal(line: &str) -> bool {
    let Some((_, text)) = line.split_once(": ").filter(|_| is_ours(line)) else {
        return false;
    };
    let only_says = ["hint: ", "waiting for ", "waited "];
    !only_says.iter().any(|start| text.starts_with(start))
}
