//! What happened in a soak, counted, and the criterion at its end: no fault, and no figure
//! of the quiet moments grew.

use std::collections::BTreeMap;
use std::time::Duration;

use super::level::growth;
use super::sample::Sample;
use super::verdict::End;

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How launches ended, by disturbance.
    pub(crate) ends: BTreeMap<(&'static str, End), u64>,
    /// Lines, without what differs from one launch to the next.
    pub(crate) said: BTreeMap<(&'static str, String), u64>,
    /// Periods, and how often it was disturbed in them.
    pub(crate) disturbed: BTreeMap<&'static str, (u64, u64)>,
    pub(crate) contexts: usize,
    pub(crate) faults: Vec<String>,
    /// At quiet moments: seconds, and what was seen.
    pub(crate) quiet: Vec<(f64, Sample)>,
}

impl Tally {
    /// Said at once, and again by the status of the test.
    pub(crate) fn fault(&mut self, what: String) {
        println!("FAULT: {what}");
        self.faults.push(what);
    }
}

/// A figure that has to stay level.
struct Figure {
    name: &'static str,
    of: fn(&Sample) -> f64,
    /// How much it may grow over the whole run.
    most: f64,
}

/// Of counts not one more: half of one is what a line through whole numbers may err.
const FIGURES: [Figure; 6] = [
    Figure {
        name: "processes",
        of: |sample| sample.processes.len() as f64,
        most: 0.5,
    },
    Figure {
        name: "descriptors",
        of: |sample| sample.descriptors as f64,
        most: 0.5,
    },
    Figure {
        name: "locks",
        of: |sample| sample.locks as f64,
        most: 0.5,
    },
    Figure {
        name: "files",
        of: |sample| sample.files as f64,
        most: 0.5,
    },
    Figure {
        name: "anonymous KiB",
        of: |sample| sample.anonymous as f64,
        most: 128.0,
    },
    Figure {
        name: "resident KiB",
        of: |sample| sample.rss as f64,
        most: 1024.0,
    },
];

/// Prints all figures.
///
/// # Panics
///
/// If there was a fault, or a figure grew.
pub(crate) fn print_and_judge(tally: &Tally, length: Duration, launches: u64) {
    let minutes = length.as_secs_f64() / 60.0;
    println!(
        "{minutes:.1} minutes, {launches} launches, {} contexts",
        tally.contexts
    );
    for (kind, (periods, times)) in &tally.disturbed {
        let ends: Vec<String> = tally
            .ends
            .iter()
            .filter(|((of, _), _)| of == kind)
            .map(|((_, end), count)| format!("{count} {end:?}").to_lowercase())
            .collect();
        println!(
            "{kind}: {periods} periods, {times} times; {}",
            ends.join(", ")
        );
        for ((_, line), count) in tally.said.iter().filter(|((of, _), _)| of == kind) {
            println!("    {count} x {line}");
        }
    }
    // What the first tenth touches for the first time is no growth.
    let warm = tally.quiet.len() / 10;
    let mut grew = Vec::new();
    for Figure { name, of, most } in FIGURES {
        let points: Vec<(f64, f64)> = tally.quiet[warm..]
            .iter()
            .map(|(at, sample)| (*at, of(sample)))
            .collect();
        let growth = growth(&points);
        let (first, last) = (points.first(), points.last());
        println!(
            "{name}: {:.0} at first, {:.0} at last, growth {growth:.2} (at most {most})",
            first.map_or(0.0, |point| point.1),
            last.map_or(0.0, |point| point.1)
        );
        if growth > most {
            grew.push(name);
        }
    }
    println!(
        "{} quiet moments, {} faults",
        tally.quiet.len(),
        tally.faults.len()
    );
    assert!(tally.faults.is_empty(), "see the lines FAULT");
    assert!(grew.is_empty(), "these grew: {grew:?}");
}
