//! Ranks as a launcher starts them, and the devices that they lease.

use std::collections::BTreeMap;

use harness::{Sandbox, wait};

/// The device of each rank, by the tag.
pub(crate) fn devices(sandbox: &Sandbox) -> BTreeMap<usize, String> {
    // A program is in the log a moment after it has its context.
    wait::until("all that run are in the log", || {
        sandbox.runs().len() >= sandbox.running()
    });
    let runs = sandbox.runs().into_iter();
    runs.map(|run| (run.tag.parse().unwrap(), run.uuid))
        .collect()
}

/// How many ranks each device has, the fullest first.
pub(crate) fn counts(sandbox: &Sandbox) -> Vec<usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for device in devices(sandbox).into_values() {
        *counts.entry(device).or_default() += 1;
    }
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}
