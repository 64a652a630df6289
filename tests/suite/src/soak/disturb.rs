//! What is done to the node while programs are launched: one disturbance after the other,
//! each for some seconds in a thread of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use harness::{Sandbox, Signal, skip, wait};
use nix::libc;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::look::state;
use crate::bytes;
use crate::random::Random;

/// What disturbs the node while programs are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Calm,
    /// CLOCK_REALTIME is set back and forth, by years.
    Clock,
    /// Every process of the node is stopped for seconds, then goes on.
    Stop,
    /// A small RLIMIT_NOFILE: EMFILE.
    Files,
    /// A small RLIMIT_AS: ENOMEM.
    Space,
    /// A small RLIMIT_NPROC: EAGAIN from fork.
    Processes,
    /// A stranger takes 10,000 ranges of the lock and gives them back.
    Foreign,
    /// SIGKILL of random processes.
    Kills,
}

/// The library that shows processes another clock.
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

impl Kind {
    /// In the order in which they come.
    #[rustfmt::skip]
    pub(crate) const ALL: [Self; 8] = [
        Self::Calm, Self::Clock, Self::Stop, Self::Files, Self::Kills, Self::Foreign,
        Self::Processes, Self::Space,
    ];

    /// Whether this machine has what it takes; otherwise it has been said.
    pub(crate) fn possible(self) -> bool {
        let why = match self {
            Self::Clock if faketime().is_none() => "libfaketime is not installed",
            Self::Processes if !nix::unistd::geteuid().is_root() => "not run as root",
            _ => return true,
        };
        skip::say(&format!("disturbance {}: {why}", self.name()));
        false
    }

    /// For people and the CSV file.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The limit that its launches run under, in front of their line.
    pub(crate) fn limit(self, random: &mut Random) -> String {
        let (letter, least, range) = match self {
            Self::Files => ('n', 4, 20),
            Self::Space => ('v', 9500, 14_000),
            Self::Processes => ('u', 0, 6),
            _ => return String::new(),
        };
        format!("ulimit -S -{letter} {}; ", least + random.below(range))
    }

    /// Statuses that it may cause, with a line that says so.
    pub(crate) const fn statuses(self) -> &'static [i32] {
        match self {
            Self::Calm | Self::Clock | Self::Foreign => &[],
            // The wait, or the time that NVML may take, has passed.
            Self::Stop => &[1, 3, 4, 75, 100, 125],
            // 137: a shell's word for a killed child.
            Self::Kills => &[1, 3, 4, 100, 125, 137],
            Self::Files | Self::Space | Self::Processes => &[1, 2, 3, 4, 100, 125, 126, 127, 254],
        }
    }

    /// Signals that a launch may end by.
    pub(crate) const fn signals(self) -> &'static [i32] {
        match self {
            Self::Kills => &[9],
            // A stopped process whose group loses its last link to its session (setpgid(2)).
            Self::Stop => &[1],
            _ => &[],
        }
    }

    /// Whether other programs (shells, the loader) may write lines too.
    pub(crate) const fn others_speak(self) -> bool {
        matches!(
            self,
            Self::Files | Self::Space | Self::Processes | Self::Kills
        )
    }
}

/// Where libfaketime is.
pub(crate) fn faketime() -> Option<PathBuf> {
    FAKETIME
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.is_file())
}

/// A disturbance that goes on, and what it needs.
#[derive(Debug)]
pub(crate) struct Disturbance<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) kind: Kind,
    /// Said when it has to end.
    pub(crate) over: &'a AtomicBool,
    /// Held while nothing may be started.
    pub(crate) gate: &'a Mutex<()>,
    pub(crate) clock: PathBuf,
    pub(crate) random: Random,
}

impl Disturbance<'_> {
    /// Until it is over; how often it disturbed.
    pub(crate) fn run(mut self) -> u64 {
        let mut times = 0;
        while !self.over.load(Ordering::Relaxed) {
            times += match self.kind {
                Kind::Calm | Kind::Files | Kind::Space | Kind::Processes => 0,
                Kind::Clock => self.set_clock(),
                Kind::Stop => self.stop(),
                Kind::Foreign => self.lock_ranges(),
                Kind::Kills => self.kill_one(),
            };
            self.pause(Duration::from_millis(match self.kind {
                Kind::Stop => 2500,
                Kind::Foreign => 500,
                _ => 200,
            }));
        }
        if self.kind == Kind::Clock {
            self.say_time(0);
        }
        times
    }

    fn pause(&self, time: Duration) {
        wait::holds_within(time, || self.over.load(Ordering::Relaxed));
    }

    fn say_time(&self, seconds: i64) {
        let new = self.clock.with_extension("new");
        fs::write(&new, format!("{seconds:+}")).expect("the clock");
        fs::rename(new, &self.clock).expect("the clock");
    }

    /// Up to ten years back or ahead.
    fn set_clock(&mut self) -> u64 {
        let seconds = self.random.below(630_000_000) as i64 - 315_000_000;
        self.say_time(seconds);
        1
    }

    /// Everything of the sandbox, for three seconds.
    fn stop(&self) -> u64 {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        // Remembered: a holder that has just given up its lock is not found a second time.
        let mut stopped = BTreeSet::new();
        let all = wait::holds_within(Duration::from_secs(2), || {
            let running: Vec<i32> = self
                .sandbox
                .processes()
                .into_iter()
                .filter(|pid| !is_stopped(*pid))
                .collect();
            for pid in &running {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
            }
            stopped.extend(running.iter().copied());
            running.is_empty()
        });
        self.pause(Duration::from_secs(3));
        stopped.extend(self.sandbox.processes());
        // Children first, so that no stopped one loses its parent.
        for pid in stopped.into_iter().rev() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
        u64::from(all)
    }

    /// In the span of a device that is not there.
    fn lock_ranges(&self) -> u64 {
        let stranger = bytes::open(self.sandbox);
        let from = bytes::span("MIG-of-nobody");
        for number in 0..10_000 {
            if bytes::lock(&stranger, libc::F_WRLCK, from + 2 * number, 1).is_err() {
                return 0;
            }
        }
        self.pause(Duration::from_secs(1));
        1
    }

    fn kill_one(&mut self) -> u64 {
        let victims: Vec<i32> = self
            .sandbox
            .processes()
            .into_iter()
            .filter(|pid| may_be_killed(*pid))
            .chain(self.needless_holders())
            .collect();
        if victims.is_empty() {
            return 0;
        }
        let victim = victims[self.random.below(victims.len() as u64) as usize];
        u64::from(kill(Pid::from_raw(victim), Signal::SIGKILL).is_ok())
    }

    /// Holders of a device on which the program has its context already: NVML shows it
    /// from then on. Not those of sessions (`--hold`), whose next program would start on a
    /// device that looks free, nor those of residents.
    fn needless_holders(&self) -> Vec<i32> {
        let contexts = self.sandbox.folder().running().unwrap_or_default();
        let needless = |words: &[String]| {
            let mut there = contexts
                .iter()
                .filter(|context| context.tag.starts_with('x'));
            there.any(|context| words.contains(&context.uuid))
                && !words.iter().any(|word| word.starts_with("hold="))
        };
        self.sandbox
            .holders()
            .into_iter()
            .filter(|holder| needless(&holder.words))
            .map(|holder| holder.pid)
            .collect()
    }
}

/// A process of the traffic. Not the shell of a session: its reservation ends with it
/// (`--hold`), while its program may not have a context yet.
fn may_be_killed(pid: i32) -> bool {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let has = |text: Vec<u8>, part: &str| String::from_utf8_lossy(&text).contains(part);
    has(read("environ"), "SOAK=traffic") && !has(read("cmdline"), ": session")
}

fn is_stopped(pid: i32) -> bool {
    state(&pid.to_string()).is_none_or(|state| "TtZX".contains(state))
}
