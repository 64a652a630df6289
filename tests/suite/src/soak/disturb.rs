//! What is done to the node between launches: one disturbance after the other, each for some
//! seconds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::{Signal, skip, wait};
use nix::libc;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::Soak;
use super::look::state;
use crate::bytes;

/// What disturbs the node while programs are launched, and what may come of it.
#[derive(Debug)]
pub(crate) struct Kind {
    /// For people and the CSV file.
    pub(crate) name: &'static str,
    /// What is done, after one launch of so many.
    pub(crate) act: fn(&mut Soak),
    pub(crate) one_in: u64,
    /// A limit that launches run under, by its letter for bash, and its range; of the address
    /// space what is beyond that with which the kernel can execute getgpu.
    pub(crate) limit: Option<(char, u64, u64)>,
    /// Statuses that it may cause, with a line that says so.
    pub(crate) statuses: &'static [i32],
    /// The signal that a launch may end by.
    pub(crate) signal: Option<i32>,
    /// Whether other programs (shells, the loader) may write lines too.
    pub(crate) others_speak: bool,
}

/// Statuses under a limit: EMFILE, ENOMEM, EAGAIN from fork.
const LIMITED: &[i32] = &[1, 2, 3, 4, 100, 125, 126, 127, 254];

#[rustfmt::skip]
const CALM: Kind = Kind {
    name: "calm", act: |_| (), one_in: 1, limit: None, statuses: &[], signal: None,
    others_speak: false,
};

/// With a limit of bash's `ulimit`.
#[rustfmt::skip]
const fn limited(name: &'static str, letter: char, least: u64, range: u64) -> Kind {
    let limit = Some((letter, least, range));
    Kind { name, limit, statuses: LIMITED, others_speak: true, ..CALM }
}

/// In the order in which they come. 137 is a shell's word for a killed child; signal 1 comes to
/// a stopped process whose group loses its last link to its session (setpgid(2)).
#[rustfmt::skip]
pub(crate) const KINDS: [Kind; 8] = [
    CALM,
    Kind { name: "clock", act: |soak| soak.set_clock(), ..CALM },
    Kind { name: "stop", act: |soak| soak.stop(), one_in: 10, statuses: &[1, 3, 4, 75, 100, 125],
        signal: Some(1), ..CALM },
    limited("files", 'n', 4, 20),
    Kind { name: "kills", act: |soak| soak.kill_one(), statuses: &[1, 3, 4, 100, 125, 137],
        signal: Some(9), others_speak: true, ..CALM },
    Kind { name: "foreign", act: |soak| soak.lock_ranges(), one_in: 4, ..CALM },
    limited("processes", 'u', 0, 6),
    limited("space", 'v', 0, 13_000),
];

impl Kind {
    /// Whether this machine has what it takes; otherwise it has been said.
    pub(crate) fn is_possible(&self) -> bool {
        let why = match self.name {
            "clock" if faketime().is_none() => "libfaketime is not installed",
            "processes" if !nix::unistd::geteuid().is_root() => "not run as root",
            _ => return true,
        };
        skip::say(&format!("disturbance {}: {why}", self.name));
        false
    }
}

/// The library that shows processes another clock.
pub(crate) fn faketime() -> Option<PathBuf> {
    let debian = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let places = [debian.as_str(), "lib64", "lib"];
    let mut paths = places.map(|place| format!("/usr/{place}/faketime/libfaketime.so.1"));
    let found = paths.iter_mut().find(|path| Path::new(path).is_file());
    found.map(|path| PathBuf::from(&*path))
}

impl Soak<'_> {
    /// CLOCK_REALTIME, up to ten years back or ahead.
    fn set_clock(&mut self) {
        let seconds = self.traffic.random.below(630_000_000) as i64 - 315_000_000;
        self.say_time(seconds);
    }

    pub(crate) fn say_time(&self, seconds: i64) {
        let new = self.traffic.clock.with_extension("new");
        fs::write(&new, format!("{seconds:+}")).expect("the clock");
        fs::rename(new, &self.traffic.clock).expect("the clock");
    }

    /// Every process of the sandbox, for three seconds.
    fn stop(&mut self) {
        // Remembered: a holder that has just given up its lock is not found a second time.
        let mut stopped = BTreeSet::new();
        wait::holds_within(Duration::from_secs(2), || {
            let mut running = self.sandbox.processes();
            running.retain(|pid| state(&pid.to_string()).is_some_and(|s| !"TtZX".contains(s)));
            for pid in &running {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
            }
            stopped.extend(running.iter().copied());
            running.is_empty()
        });
        std::thread::sleep(Duration::from_secs(3));
        stopped.extend(self.sandbox.processes());
        // Children first, so that no stopped one loses its parent.
        for pid in stopped.into_iter().rev() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
    }

    /// A stranger's 10,000 ranges in the span of a device that is not there, and the next time
    /// they are gone.
    fn lock_ranges(&mut self) {
        if self.stranger.take().is_some() {
            return;
        }
        let stranger = bytes::open(self.sandbox);
        let from = bytes::span("MIG-of-nobody");
        for number in 0..10_000 {
            let _ = bytes::lock(&stranger, libc::F_WRLCK, from + 2 * number, 1);
        }
        self.stranger = Some(stranger);
    }

    /// SIGKILL of a process of the traffic, or of a holder of a device on which the program
    /// has its context already: NVML shows it from then on. Not of the shells and holders of
    /// sessions (`--hold`), whose next program would start on a device that looks free.
    fn kill_one(&mut self) {
        let contexts = self.sandbox.folder().running().unwrap_or_default();
        let needless = |words: &[String]| {
            let mut there = contexts.iter().filter(|one| one.tag.starts_with('x'));
            there.any(|one| words.contains(&one.uuid))
                && !words.iter().any(|word| word.starts_with("hold="))
        };
        let mut victims = self.sandbox.processes();
        victims.retain(|pid| {
            let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let has = |text: Vec<u8>, part: &str| String::from_utf8_lossy(&text).contains(part);
            has(read("environ"), "SOAK=traffic") && !has(read("cmdline"), ": session")
        });
        let holders = self.sandbox.holders().into_iter();
        victims.extend(holders.filter_map(|one| needless(&one.words).then_some(one.pid)));
        if !victims.is_empty() {
            let victim = victims[self.traffic.random.below(victims.len() as u64) as usize];
            let _ = kill(Pid::from_raw(victim), Signal::SIGKILL);
        }
    }
}
