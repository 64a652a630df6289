//! A long run on one node: ordinary traffic of several users while one disturbance after
//! the other goes on. After each, the node falls quiet, and then nothing may be left but
//! what has lived there from the beginning.

#![allow(clippy::print_stdout, reason = "the figures are read")]

mod disturb;
mod launch;
mod look;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use harness::{Running, Sandbox, skip, wait};

use self::disturb::{KINDS, Kind};
use self::launch::{Traffic, Way, judge};
use self::look::{FIGURES, Look};
use crate::{bytes, on_target};

/// Devices of three profiles: the residents take some of the larger two.
const NODE: &str = "driver = \"570.86.10\"\n\
    [[gpu]]\nmodel = \"A100-SXM4-40GB\"\nmig = true\nlayout = \"3g.20gb, 2x2g.10gb\"\n\
    [[gpu]]\nmodel = \"A100-SXM4-40GB\"\nmig = true\nlayout = \"3x2g.10gb\"\n\
    [[gpu]]\nmodel = \"A100-SXM4-40GB\"\nmig = true\nlayout = \"7x1g.5gb\"\n";

/// Longer than everything is ever stopped: a reservation whose program does not come in
/// this time ends.
const SETTINGS: &str = "linger = '300ms'\nreserve_for = '6s'\nmax_idle = '8h'";

/// A soak that goes on, and what happened in it.
struct Soak<'a> {
    sandbox: &'a Sandbox,
    traffic: Traffic,
    began: Instant,
    record: File,
    /// The residents alone.
    alone: Look,
    free: String,
    /// How launches ended, by disturbance.
    ends: BTreeMap<(&'static str, &'static str), u64>,
    /// At quiet moments.
    quiet: Vec<Look>,
    collisions: usize,
    faults: usize,
    /// Who has locked what no device is at, while that is the disturbance.
    stranger: Option<bytes::Stranger>,
}

/// A number from the environment.
pub fn number(name: &str, otherwise: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs a soak for SOAK_MINUTES (60), with SOAK_PACE milliseconds between two launches and
/// SOAK_PERIOD seconds of each disturbance; the record goes to SOAK_CSV.
///
/// # Panics
///
/// At its end, if two programs met on a device, a launch ended otherwise than it may,
/// anything was left at a quiet moment, or anything grew.
pub fn soak() {
    let record = std::env::var_os("SOAK_CSV").map_or_else(|| on_target("soak.csv"), PathBuf::from);
    let length = Duration::from_secs(60 * number("SOAK_MINUTES", 60));
    let seed = number("SOAK_SEED", 1);
    println!("seed {seed}, recorded in {}", record.display());
    let sandbox = Sandbox::with(NODE, SETTINGS);
    let mut kinds = Vec::from(KINDS);
    kinds.retain(Kind::is_possible);
    let residents = residents(&sandbox);
    let mut record = File::create(record).expect("the record");
    let figures = FIGURES.map(|(name, _)| name).join(",");
    let header = format!("seconds,disturbance,quiet,launches,{figures},collisions");
    writeln!(record, "{header}").expect("the record");
    let mut soak = Soak {
        sandbox: &sandbox,
        traffic: Traffic::new(&sandbox, seed),
        began: Instant::now(),
        record,
        alone: at_rest(&sandbox),
        free: sandbox.line("--count-free"),
        ends: BTreeMap::new(),
        quiet: Vec::new(),
        collisions: 0,
        faults: 0,
        stranger: None,
    };
    println!("residents: {:?}", soak.alone);
    for kind in kinds.iter().cycle() {
        if soak.began.elapsed() >= length {
            break;
        }
        soak.disturb(kind);
        soak.judge_when_quiet(kind);
    }
    drop(residents);
    let nothing = || sandbox.holders().is_empty() && !sandbox.locked();
    if !wait::holds_within(Duration::from_secs(30), nothing) {
        soak.fault(&format!("left at the end: {:?}", sandbox.holders()));
    }
    soak.print_and_judge();
}

/// As it is most of the time: the resident that waits looks for a device once a second, by
/// a helper, and the first looks may come before all have started.
fn at_rest(sandbox: &Sandbox) -> Look {
    let look = |_| {
        std::thread::sleep(Duration::from_millis(100));
        Look::take(sandbox)
    };
    let mut looks: Vec<Look> = (0..60).map(look).collect();
    looks.sort_by_key(|look| (look.processes.len(), look.figures[4]));
    looks.swap_remove(30)
}

/// What lives from the beginning of a soak to its end: a program in each of several ways,
/// a waiter that is never served, a kept reservation, a list on a terminal. If anything
/// grows with time, it grows in these.
fn residents(sandbox: &Sandbox) -> Vec<Running> {
    let hook = crate::hooked::hook(sandbox);
    let shell = |line: &str| {
        let line = line.replace("RUN", "sim-cuda --run forever --tag");
        let command = sandbox.shell("bash", &line).env("HOOK", &hook);
        command.limit(Duration::MAX).spawn()
    };
    // A program that never asked.
    let last: Vec<String> = sandbox.uuids().into_iter().rev().take(1).collect();
    let mut all = sandbox.occupy(&last, "--tag r-stranger");
    all.push(shell("exec cudawrap --profile 3g.20gb -- RUN r-leased"));
    sandbox.until_running(2);
    for line in [
        "exec cudawrap --profile 3g.20gb --wait -- RUN r-waiting",
        "d=$(getgpu --profile 2g.10gb) || exit; CUDA_VISIBLE_DEVICES=$d RUN r-reserved; exit",
        "getgpu --profile 2g.10gb --hold --tag r-held || exit; read -r _ < <(exec sleep infinity)",
        "export CUDAWRAP_PROFILE=2g.10gb; CUDA_INJECTION64_PATH=$HOOK exec RUN r-unwrapped",
    ] {
        all.push(shell(line));
    }
    sandbox.until_running(4);
    wait::until("the reservation is kept", || sandbox.holders().len() == 2);
    wait::until("one waits", || all[2].stderr().contains("ahead of you"));
    if !skip::lacks(&[skip::Need::Tool("script")]) {
        let list = "exec script -qfc 'getgpu --watch=5' /dev/null >/dev/null";
        all.push(shell(list));
    }
    all
}

impl Soak<'_> {
    /// Said at once, and again by the status of the test.
    fn fault(&mut self, what: &str) {
        println!("FAULT: {what}");
        self.faults += 1;
    }

    /// One disturbance, with launches all the time, until the last of them has ended.
    fn disturb(&mut self, kind: &Kind) {
        let (began, mut recorded) = (Instant::now(), Instant::now());
        let period = Duration::from_secs(number("SOAK_PERIOD", 15));
        let pace = Duration::from_millis(number("SOAK_PACE", 250));
        let mut running: Vec<(Way, Running)> = Vec::new();
        while began.elapsed() < period {
            // Mostly one at once, now and then more than there are devices.
            let crowd = if self.traffic.random.below(20) == 0 {
                12
            } else {
                1
            };
            for _ in 0..crowd {
                let (way, command) = self.traffic.next(self.sandbox, kind);
                running.push((way, command.spawn()));
            }
            if self.traffic.random.below(kind.one_in) == 0 {
                (kind.act)(self);
            }
            self.collect(&mut running, kind);
            if recorded.elapsed() > Duration::from_secs(5) {
                recorded = Instant::now();
                self.write(kind, &Look::take(self.sandbox), 0);
            }
            std::thread::sleep(pace);
        }
        self.stranger = None;
        self.say_time(0);
        let all = wait::holds_within(Duration::from_secs(60), || {
            self.collect(&mut running, kind);
            std::thread::sleep(Duration::from_millis(20));
            running.is_empty()
        });
        if !all {
            self.fault(&format!("did not end: {} {running:?}", kind.name));
        }
    }

    /// Judges those that have ended.
    fn collect(&mut self, running: &mut Vec<(Way, Running)>, kind: &Kind) {
        for (way, mut program) in std::mem::take(running) {
            if !program.is_over() {
                running.push((way, program));
                continue;
            }
            match judge(kind, way, &program.wait()) {
                Ok(end) => {
                    *self.ends.entry((kind.name, end)).or_default() += 1;
                }
                Err(what) => self.fault(&what),
            }
        }
    }

    /// Waits until the node is as it was at first, and says what is not.
    fn judge_when_quiet(&mut self, kind: &Kind) {
        let mut look = Look::take(self.sandbox);
        // Longer than a reservation waits for a program that does not come.
        let fell = wait::holds_within(Duration::from_secs(15), || {
            std::thread::sleep(Duration::from_millis(50));
            look = Look::take(self.sandbox);
            // A resident that looks at that moment has a pipe more.
            look.is_as(&self.alone) && look.figures[3] <= self.alone.figures[3]
        });
        if !fell && !look.is_as(&self.alone) {
            self.fault(&format!("not {:?}, but {look:?}", self.alone));
        }
        let collisions = self.sandbox.collisions();
        for collision in collisions.iter().skip(self.collisions) {
            self.fault(&format!("two programs on one device: {collision:?}"));
        }
        self.collisions = collisions.len();
        let free = self.sandbox.line("--count-free");
        if free != self.free {
            self.fault(&format!("{free} devices are free instead of {}", self.free));
        }
        self.write(kind, &look, 1);
        self.quiet.push(look);
    }

    /// A line of the CSV file.
    fn write(&mut self, kind: &Kind, look: &Look, quiet: u8) {
        let seconds = self.began.elapsed().as_secs_f64();
        let figures = look.figures.map(|figure| figure.to_string()).join(",");
        let (name, launches, met) = (kind.name, self.traffic.launches, self.collisions);
        let line = format!("{seconds:.1},{name},{quiet},{launches},{figures},{met}");
        writeln!(self.record, "{line}").expect("the record");
    }

    /// Prints all figures, and fails if there was a fault or a figure grew.
    fn print_and_judge(&self) {
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        let (launches, quiet) = (self.traffic.launches, self.quiet.len());
        println!("{minutes:.1} minutes, {launches} launches, {quiet} quiet moments");
        for ((kind, end), count) in &self.ends {
            println!("{kind}: {count} {end}");
        }
        // What the first tenth touches for the first time is no growth: the medians of the
        // first and the last third of the rest.
        let warm = &self.quiet[quiet / 10..];
        let mut grew = Vec::new();
        for (figure, (name, most)) in FIGURES.into_iter().enumerate() {
            let median = |looks: &[Look]| {
                let mut all: Vec<u64> = looks.iter().map(|look| look.figures[figure]).collect();
                all.sort_unstable();
                all.get(all.len() / 2).copied().unwrap_or(0)
            };
            let third = warm.len().div_ceil(3);
            let (first, last) = (median(&warm[..third]), median(&warm[warm.len() - third..]));
            println!("{name}: from {first} to {last} (at most {most} more)");
            if last > first + most {
                grew.push(name);
            }
        }
        assert_eq!(self.faults, 0, "see the lines FAULT");
        assert!(grew.is_empty(), "these grew: {grew:?}");
    }
}
