//! A long run on one node: ordinary traffic of several users while one disturbance after
//! the other goes on. After each, the node falls quiet, and then nothing may be left but
//! what has lived there from the beginning.

#![allow(clippy::print_stdout, reason = "the figures are read")]

mod disturb;
mod group;
mod kind;
mod level;
mod quiet;
mod record;
mod report;
mod residents;
mod sample;
mod traffic;
mod verdict;
mod way;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use harness::{Running, Sandbox, wait};

use self::disturb::Disturbance;
use self::group::Group;
use self::kind::Kind;
use self::quiet::Level;
use self::record::{Over, Recorder};
use self::report::Tally;
use self::traffic::Traffic;
use self::way::Way;

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

/// Runs a soak.
///
/// # Panics
///
/// At its end, if two programs met on a device, a launch ended otherwise than it may,
/// anything was left at a quiet moment, or anything grew.
pub fn soak(plan: &Plan) {
    let sandbox = Sandbox::builder(NODE).settings(SETTINGS).build();
    let kinds: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|kind| kind.possible())
        .collect();
    let residents = residents::start(&sandbox);
    let mut traffic = Traffic::new(&sandbox, plan.seed);
    let level = Level::of(&sandbox);
    println!("seed {}; residents: {level}", plan.seed);
    let recorder = Recorder::new(&sandbox, plan.record);
    let group = kinds.contains(&Kind::Memory).then(Group::new).flatten();
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let _over = Over(&recorder.over);
        scope.spawn(|| recorder.until_over());
        for kind in kinds.iter().copied().cycle() {
            if recorder.elapsed() >= plan.length {
                break;
            }
            let group = group.as_ref().filter(|_| kind == Kind::Memory);
            disturbed(plan, &recorder, &mut traffic, &mut tally, kind, group);
            level.judge_when_quiet(&recorder, &mut tally);
        }
    });
    let end = recorder.elapsed();
    drop(residents);
    let nothing = || sandbox.holders().is_empty() && !sandbox.locked();
    if !wait::holds_within(Duration::from_secs(30), nothing) {
        tally.fault(format!("left at the end: {}", quiet::commands(&sandbox)));
    }
    report::print_and_judge(&tally, end, recorder.launches());
}

/// One disturbance, with launches all the time, until the last of them has ended.
fn disturbed(
    plan: &Plan,
    recorder: &Recorder,
    traffic: &mut Traffic,
    tally: &mut Tally,
    kind: Kind,
    group: Option<&Group>,
) {
    recorder.say(kind.name());
    let (over, gate, began) = (AtomicBool::new(false), Mutex::new(()), Instant::now());
    let disturbance = Disturbance {
        sandbox: recorder.sandbox,
        kind,
        over: &over,
        gate: &gate,
        clock: traffic.clock(),
        group,
        random: crate::random::Random::new(traffic.random.below(u64::from(u32::MAX))),
    };
    let mut running: Vec<(Way, Running)> = Vec::new();
    let times = std::thread::scope(|scope| {
        let _over = Over(&over);
        let disturbing = scope.spawn(|| disturbance.run());
        while began.elapsed() < plan.period {
            {
                let _gate = gate.lock().unwrap_or_else(PoisonError::into_inner);
                for _ in 0..traffic.crowd() {
                    let (way, command) = traffic.next(recorder.sandbox, kind, group);
                    running.push((way, command.spawn()));
                    recorder.count_launch();
                }
            }
            collect(&mut running, tally, kind);
            std::thread::sleep(plan.pace);
        }
        over.store(true, Ordering::Relaxed);
        disturbing.join().expect("the disturbance")
    });
    let all = wait::holds_within(Duration::from_secs(60), || {
        collect(&mut running, tally, kind);
        std::thread::sleep(Duration::from_millis(20));
        running.is_empty()
    });
    if !all {
        tally.fault(format!("did not end: {kind:?} {running:?}"));
    }
    let count = tally.disturbed.entry(kind.name()).or_default();
    *count = (count.0 + 1, count.1 + times);
}

/// Judges those that have ended.
fn collect(running: &mut Vec<(Way, Running)>, tally: &mut Tally, kind: Kind) {
    let all = std::mem::take(running);
    for (way, mut program) in all {
        if !program.is_over() {
            running.push((way, program));
            continue;
        }
        let outcome = program.wait();
        match verdict::judge(kind, way, &outcome) {
            Ok(end) => *tally.ends.entry((kind.name(), end)).or_default() += 1,
            Err(what) => tally.fault(what),
        }
        for line in outcome
            .stderr
            .lines()
            .filter(|line| verdict::is_refusal(line))
        {
            let said = (kind.name(), verdict::without_numbers(line));
            *tally.said.entry(said).or_default() += 1;
        }
    }
}
