//! A quiet moment: every launch has ended, so nothing may be left but the residents, and
//! every device that is not theirs is free.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::Duration;

use harness::{Sandbox, wait};

use super::record::Recorder;
use super::report::Tally;
use super::sample::Sample;
use super::verdict;

/// Longer than a reservation waits for a program that does not come.
const LIMIT: Duration = Duration::from_secs(15);

/// What the residents alone are.
#[derive(Debug)]
pub(crate) struct Level {
    sample: Sample,
    free: String,
}

impl Level {
    /// As it is most of the time: the resident that waits looks for a device once a
    /// second, by a helper.
    pub(crate) fn of(sandbox: &Sandbox) -> Self {
        let mut looks: Vec<Sample> = (0..60)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(100));
                Sample::take(sandbox)
            })
            .collect();
        let mut often: BTreeMap<(Vec<i32>, usize), usize> = BTreeMap::new();
        for look in &looks {
            let seen = (look.processes.clone(), look.locks);
            *often.entry(seen).or_default() += 1;
        }
        let most = often.into_iter().max_by_key(|(_, times)| *times);
        let (processes, locks) = most.expect("sixty looks").0;
        looks.retain(|look| look.processes == processes && look.locks == locks);
        Self {
            sample: looks.swap_remove(0),
            free: free_devices(sandbox),
        }
    }

    /// Waits until the node is as it was at first, and says what is not.
    pub(crate) fn judge_when_quiet(&self, recorder: &Recorder, tally: &mut Tally) {
        let sandbox = recorder.sandbox;
        let mut sample = Sample::take(sandbox);
        let fell = wait::holds_within(LIMIT, || {
            std::thread::sleep(Duration::from_millis(50));
            sample = Sample::take(sandbox);
            self.is_met_by(&sample)
        });
        // A resident that looks at that moment has a pipe more.
        wait::holds_within(Duration::from_secs(2), || {
            let still = sample.descriptors <= self.sample.descriptors;
            if !still {
                sample = Sample::take(sandbox);
            }
            still
        });
        judge_runs(sandbox, tally);
        if !fell {
            tally.fault(self.left_behind(&sample));
        }
        let free = free_devices(sandbox);
        if free != self.free {
            tally.fault(format!("{free} devices are free instead of {}", self.free));
        }
        recorder.write(&sample, true);
        tally.quiet.push((recorder.elapsed().as_secs_f64(), sample));
    }

    fn is_met_by(&self, now: &Sample) -> bool {
        let then = &self.sample;
        let same = now.processes == then.processes && now.locks == then.locks;
        same && now.files == then.files && now.zombies == 0
    }

    fn left_behind(&self, now: &Sample) -> String {
        let then = &self.sample;
        let others = now
            .processes
            .iter()
            .filter(|pid| !then.processes.contains(pid));
        let others: Vec<String> = others.map(words).collect();
        let gone = then
            .processes
            .iter()
            .filter(|pid| !now.processes.contains(pid));
        format!(
            "not as before: locks {} instead of {}, files {} instead of {}, zombies {}, processes {others:?}, gone {:?}",
            now.locks,
            then.locks,
            now.files,
            then.files,
            now.zombies,
            gone.collect::<Vec<_>>()
        )
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let (processes, locks) = (self.sample.processes.len(), self.sample.locks);
        write!(
            formatter,
            "{processes} processes, {locks} ranges locked, {} devices free",
            self.free
        )
    }
}

/// No two programs met since the last quiet moment; their log begins anew.
fn judge_runs(sandbox: &Sandbox, tally: &mut Tally) {
    let before = tally
        .quiet
        .last()
        .map_or(0, |(_, sample)| sample.collisions);
    let collisions = sandbox.folder().collisions();
    for collision in collisions
        .expect("the log of collisions")
        .iter()
        .skip(before)
    {
        tally.fault(format!("two programs on one device: {collision:?}"));
    }
    let runs = sandbox.folder().runs().expect("the log of runs");
    for overlap in verdict::overlaps(&runs) {
        tally.fault(format!("two runs at once: {overlap}"));
    }
    tally.contexts += runs.len();
    // Nobody writes now.
    fs::write(sandbox.folder().path("runs.log"), "").expect("the log of runs");
}

/// The command lines of all live processes of the sandbox.
pub(crate) fn commands(sandbox: &Sandbox) -> String {
    let all: Vec<String> = sandbox.processes().iter().map(words).collect();
    format!("{all:?}")
}

fn words(pid: &i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!(
        "{pid} {}",
        String::from_utf8_lossy(&words).replace('\0', " ")
    )
}

fn free_devices(sandbox: &Sandbox) -> String {
    sandbox.getgpu(["--count-free"]).run().line()
}
