//! A long run on one node: ordinary traffic of several users while one disturbance after
//! the other goes on. After each, the node falls quiet, and then nothing may be left but
//! what has lived there from the beginning.

#![allow(clippy::print_stdout, reason = "the figures are read")]

mod disturb;
mod launch;
mod look;
mod residents;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use harness::{Running, Sandbox, wait};

use self::disturb::{Disturbance, Kind};
use self::launch::{Traffic, Way, judge};
use self::look::{FIGURES, Look, MOST, growth};

/// Devices of three profiles: the residents take some of the larger two.
const NODE: &str = "driver = \"570.86.10\"\n\
    [[gpu]]\nmodel = \"A100-SXM4-40GB\"\nmig = true\nlayout = \"3g.20gb, 2x2g.10gb\"\n\
    [[gpu]]\nmodel = \"A100-SXM4-40GB\"\nmig = true\nlayout = \"3x2g.10gb\"\n\
    [[gpu]]\nmodel = \"A100-SXM4-40GB\"\nmig = true\nlayout = \"7x1g.5gb\"\n";

/// Longer than everything is ever stopped: a reservation whose program does not come in
/// this time ends.
const SETTINGS: &str = "linger = '300ms'\nreserve_for = '6s'\nmax_idle = '8h'";

/// How a soak is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// As a whole.
    pub length: Duration,
    /// Of each disturbance.
    pub period: Duration,
    /// Between two launches.
    pub pace: Duration,
    /// Which programs are started, and who is killed.
    pub seed: u64,
    /// The CSV file.
    pub record: &'a Path,
}

/// A soak that goes on, and what happened in it.
struct Soak<'a> {
    plan: &'a Plan<'a>,
    sandbox: &'a Sandbox,
    traffic: Traffic,
    began: Instant,
    record: File,
    /// The residents alone.
    alone: Look,
    free: String,
    /// How launches ended, and how often it was disturbed, by disturbance.
    ends: BTreeMap<String, BTreeMap<&'static str, u64>>,
    /// At quiet moments: seconds, and what was seen.
    quiet: Vec<(f64, Look)>,
    collisions: usize,
    faults: usize,
}

/// Runs a soak.
///
/// # Panics
///
/// At its end, if two programs met on a device, a launch ended otherwise than it may,
/// anything was left at a quiet moment, or anything grew.
pub fn soak(plan: &Plan) {
    let sandbox = Sandbox::with(NODE, SETTINGS);
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| kind.possible())
        .collect();
    let residents = residents::start(&sandbox);
    let mut record = File::create(plan.record).expect("the record");
    let header = FIGURES.join(",");
    writeln!(
        record,
        "seconds,disturbance,quiet,launches,{header},collisions"
    )
    .expect("the record");
    let mut soak = Soak {
        plan,
        sandbox: &sandbox,
        traffic: Traffic::new(&sandbox, plan.seed),
        began: Instant::now(),
        record,
        alone: at_rest(&sandbox),
        free: free_devices(&sandbox),
        ends: BTreeMap::new(),
        quiet: Vec::new(),
        collisions: 0,
        faults: 0,
    };
    println!("seed {}; residents: {:?}", plan.seed, soak.alone);
    for kind in kinds.into_iter().cycle() {
        if soak.began.elapsed() >= plan.length {
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

fn free_devices(sandbox: &Sandbox) -> String {
    sandbox.line("--count-free")
}

impl Soak<'_> {
    /// Said at once, and again by the status of the test.
    fn fault(&mut self, what: &str) {
        println!("FAULT: {what}");
        self.faults += 1;
    }

    /// One disturbance, with launches all the time, until the last of them has ended.
    fn disturb(&mut self, kind: Kind) {
        let (over, gate, began) = (AtomicBool::new(false), Mutex::new(()), Instant::now());
        let disturbance = Disturbance {
            sandbox: self.sandbox,
            kind,
            over: &over,
            gate: &gate,
            clock: self.traffic.clock.clone(),
            random: crate::random::Random::new(self.traffic.random.below(u64::from(u32::MAX))),
        };
        let mut running: Vec<(Way, Running)> = Vec::new();
        let mut recorded = Instant::now();
        let times = std::thread::scope(|scope| {
            let _over = Over(&over);
            let disturbing = scope.spawn(|| disturbance.run());
            while began.elapsed() < self.plan.period {
                // Mostly one at once, now and then more than there are devices.
                let crowd = if self.traffic.random.below(20) == 0 {
                    12
                } else {
                    1
                };
                let held = gate.lock().unwrap_or_else(PoisonError::into_inner);
                for _ in 0..crowd {
                    let (way, command) = self.traffic.next(self.sandbox, kind);
                    running.push((way, command.spawn()));
                }
                drop(held);
                self.collect(&mut running, kind);
                if recorded.elapsed() > Duration::from_secs(5) {
                    recorded = Instant::now();
                    self.write(kind, &Look::take(self.sandbox), 0);
                }
                std::thread::sleep(self.plan.pace);
            }
            over.store(true, Ordering::Relaxed);
            disturbing.join().expect("the disturbance")
        });
        let all = wait::holds_within(Duration::from_secs(60), || {
            self.collect(&mut running, kind);
            std::thread::sleep(Duration::from_millis(20));
            running.is_empty()
        });
        if !all {
            self.fault(&format!("did not end: {kind:?} {running:?}"));
        }
        *self.count(kind, "times disturbed") += times;
    }

    fn count(&mut self, kind: Kind, end: &'static str) -> &mut u64 {
        self.ends
            .entry(kind.name())
            .or_default()
            .entry(end)
            .or_default()
    }

    /// Judges those that have ended.
    fn collect(&mut self, running: &mut Vec<(Way, Running)>, kind: Kind) {
        for (way, mut program) in std::mem::take(running) {
            if !program.is_over() {
                running.push((way, program));
                continue;
            }
            match judge(kind, way, &program.wait()) {
                Ok(end) => *self.count(kind, end) += 1,
                Err(what) => self.fault(&what),
            }
        }
    }

    /// Waits until the node is as it was at first, and says what is not.
    fn judge_when_quiet(&mut self, kind: Kind) {
        let mut look = Look::take(self.sandbox);
        // Longer than a reservation waits for a program that does not come.
        let fell = wait::holds_within(Duration::from_secs(15), || {
            std::thread::sleep(Duration::from_millis(50));
            look = Look::take(self.sandbox);
            // A resident that looks at that moment has a pipe more.
            look.is_as(&self.alone) && look.figures[3] <= self.alone.figures[3]
        });
        if !fell && !look.is_as(&self.alone) {
            let others = look.others(&self.alone);
            self.fault(&format!("not {:?}, but {look:?}: {others:?}", self.alone));
        }
        let collisions = self
            .sandbox
            .folder()
            .collisions()
            .expect("the log of collisions");
        for collision in collisions.iter().skip(self.collisions) {
            self.fault(&format!("two programs on one device: {collision:?}"));
        }
        self.collisions = collisions.len();
        let free = free_devices(self.sandbox);
        if free != self.free {
            self.fault(&format!("{free} devices are free instead of {}", self.free));
        }
        self.write(kind, &look, 1);
        self.quiet.push((self.began.elapsed().as_secs_f64(), look));
    }

    /// A line of the CSV file.
    fn write(&mut self, kind: Kind, look: &Look, quiet: u8) {
        let seconds = self.began.elapsed().as_secs_f64();
        let figures = look.figures.map(|figure| figure.to_string()).join(",");
        let (name, launches, met) = (kind.name(), self.traffic.launches, self.collisions);
        writeln!(
            self.record,
            "{seconds:.1},{name},{quiet},{launches},{figures},{met}"
        )
        .expect("the record");
    }

    /// Prints all figures, and fails if there was a fault or a figure grew.
    fn print_and_judge(&self) {
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        let (launches, quiet) = (self.traffic.launches, self.quiet.len());
        println!("{minutes:.1} minutes, {launches} launches, {quiet} quiet moments");
        for (kind, ends) in &self.ends {
            println!("{kind}: {ends:?}");
        }
        // What the first tenth touches for the first time is no growth.
        let warm = &self.quiet[quiet / 10..];
        let mut grew = Vec::new();
        for (figure, (name, most)) in FIGURES.into_iter().zip(MOST).enumerate() {
            let at = |(at, look): &(f64, Look)| (*at, look.figures[figure] as f64);
            let points: Vec<(f64, f64)> = warm.iter().map(at).collect();
            let growth = growth(&points);
            println!("{name}: growth {growth:.2} (at most {most})");
            if growth > most {
                grew.push(name);
            }
        }
        assert!(
            self.faults == 0,
            "{} faults: see the lines FAULT",
            self.faults
        );
        assert!(grew.is_empty(), "these grew: {grew:?}");
    }
}

/// Says that the threads beside this one have to end, also after a panic.
#[derive(Debug)]
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
