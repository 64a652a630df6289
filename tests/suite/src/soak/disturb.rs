//! What is done to the node while programs are launched: one disturbance after the other,
//! each for some seconds in a thread of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use harness::{Running, Sandbox, Signal, wait};
use nix::libc;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::group::Group;
use super::kind::Kind;
use crate::bytes;
use crate::random::Random;

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
    pub(crate) group: Option<&'a Group>,
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
                Kind::Leap => self.leap(times),
                Kind::Stop => self.stop(),
                Kind::Memory => self.fill(),
                Kind::Foreign => self.lock_ranges(),
                Kind::Kills => self.kill_one(),
            };
            self.pause(Duration::from_millis(match self.kind {
                Kind::Stop | Kind::Memory => 2500,
                Kind::Foreign => 500,
                _ => 200,
            }));
        }
        if matches!(self.kind, Kind::Clock | Kind::Leap) {
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

    /// Ten minutes further each time: such a clock never goes back.
    fn leap(&self, times: u64) -> u64 {
        self.say_time(600 * (times as i64 + 1));
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

    /// A program in the cgroup that takes all of its memory; counted are the processes
    /// that the kernel kills.
    fn fill(&self) -> u64 {
        let Some(group) = self.group else {
            return 0;
        };
        let before = group.kills();
        let line = format!(
            "echo 0 > {} && exec tail /dev/zero",
            group.entry().display()
        );
        let mut hog: Running = self
            .sandbox
            .shell("dash", &line)
            .limit(Duration::MAX)
            .spawn();
        wait::holds_within(Duration::from_secs(2), || {
            hog.is_over() || self.over.load(Ordering::Relaxed)
        });
        drop(hog);
        group.kills() - before
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
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'Z', 'X']))
}
