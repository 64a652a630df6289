//! The ordinary traffic of a soak: programs of several users. Each launch is one line of a
//! shell, which the disturbance may put limits or another clock before.

use std::path::PathBuf;
use std::time::Duration;

use harness::{Command, Sandbox};

use super::group::Group;
use super::kind::{Kind, faketime};
use super::way::Way;
use crate::OTHER;
use crate::random::Random;

/// What all launches of a soak share.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) random: Random,
    /// Starts with the limits of the caller lifted again, and the true clock.
    program: PathBuf,
    clock: PathBuf,
    hook: PathBuf,
    root: bool,
    ahead: bool,
    launches: u64,
}

/// The file that says which time it is, and those that stand for a program.
impl Traffic {
    pub(crate) fn new(sandbox: &Sandbox, seed: u64) -> Self {
        let program = "#!/bin/bash\nunset LD_PRELOAD\nulimit -S -n 1024\nulimit -S -v hard\n\
                       ulimit -S -u hard\nexec sim-cuda \"$@\"\n";
        let link = sandbox.path("opt/app");
        std::fs::create_dir(sandbox.path("opt")).expect("a directory of the sandbox");
        std::os::unix::fs::symlink(sandbox.path("bin/cudawrap"), link).expect("a link");
        sandbox.file("opt/CUDAWRAP_app", program, 0o755);
        let time = ["-T", "--boottime", "1", "--monotonic", "1", "true"];
        let root = nix::unistd::geteuid().is_root();
        let ahead = root && sandbox.command("unshare").args(time).run().code() == Some(0);
        if !ahead {
            harness::skip::say("no time namespaces here");
        }
        Self {
            random: Random::new(seed),
            program: sandbox.file("opt/program", program, 0o755),
            clock: sandbox.file("opt/clock", "+0", 0o644),
            hook: crate::hooked::hook(sandbox),
            root,
            ahead,
            launches: 0,
        }
    }

    /// Where libfaketime reads by how many seconds its processes' clock is off.
    pub(crate) fn clock(&self) -> PathBuf {
        self.clock.clone()
    }

    fn way(&mut self, kind: Kind) -> Way {
        let fits = |way: Way| match kind {
            Kind::Memory => way.survives(),
            Kind::Processes => way.forkless(),
            _ => way != Way::Ahead || self.ahead,
        };
        let ways: Vec<Way> = Way::ALL.into_iter().filter(|way| fits(*way)).collect();
        ways[self.random.below(ways.len() as u64) as usize]
    }

    /// How many launches come at once: mostly one, now and then more than there are
    /// devices.
    pub(crate) fn crowd(&mut self) -> u64 {
        if self.random.below(20) == 0 { 12 } else { 1 }
    }

    /// The next launch, as one of four users where this is root.
    pub(crate) fn next(
        &mut self,
        sandbox: &Sandbox,
        kind: Kind,
        group: Option<&Group>,
    ) -> (Way, Command) {
        self.launches += 1;
        let way = self.way(kind);
        let time = 200 + self.random.below(3000);
        let program = match kind {
            Kind::Calm | Kind::Stop | Kind::Foreign | Kind::Kills => "sim-cuda".to_owned(),
            _ => self.program.display().to_string(),
        };
        let line = way.line(&program, time, self.launches);
        let user = self.random.below(4) as u32;
        let other = self.root && way != Way::Ahead && (user > 0 || kind == Kind::Processes);
        let limit = match kind {
            Kind::Files => format!("ulimit -S -n {}; ", 4 + self.random.below(20)),
            Kind::Space => format!("ulimit -S -v {}; ", 9500 + self.random.below(14_000)),
            Kind::Processes => format!("ulimit -S -u {}; ", self.random.below(6)),
            _ => String::new(),
        };
        let command = if let Some(group) = group {
            // Some of them die before the program that fills the memory, some after it.
            let score = (500 * self.random.below(3)).to_string();
            let user = if other { OTHER + user } else { 0 };
            let join = format!(
                "echo 0 > {} && echo $SCORE > /proc/self/oom_score_adj && exec setpriv --reuid={user} --regid={user} --clear-groups dash -c \"$LINE\"",
                group.entry().display()
            );
            sandbox
                .shell("dash", &join)
                .env("LINE", line)
                .env("SCORE", score)
        } else {
            // Only bash limits the number of processes.
            let command = sandbox.shell("bash", &format!("{limit}{line}"));
            if other {
                command.uid(OTHER + user)
            } else {
                command
            }
        };
        let command = command
            .env("HOOK", &self.hook)
            .env("SOAK", "traffic")
            .limit(Duration::from_secs(90));
        (way, self.with_clock(kind, command))
    }

    fn with_clock(&self, kind: Kind, command: Command) -> Command {
        let Some(library) = faketime().filter(|_| matches!(kind, Kind::Clock | Kind::Leap)) else {
            return command;
        };
        let command = command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DISABLE_SHM", "1");
        if kind == Kind::Clock {
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        } else {
            command
        }
    }
}
