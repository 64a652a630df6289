//! Waiters as the tests of the queue start, count and end them.

use std::time::Duration;

use getgpu_tests::listing;
use harness::{Command, Running, Sandbox, wait};

/// Starts waiters one after the other, each only when those before it stand in line.
pub(crate) fn line_up(sandbox: &Sandbox, commands: Vec<Command>) -> Vec<Running> {
    let before = listing::waiting(sandbox);
    let each = commands.into_iter().zip(1..).map(|(command, number)| {
        let running = command.limit(Duration::from_secs(120)).spawn();
        wait::until("it waits in the queue", || {
            listing::waiting(sandbox) == before + number
        });
        running
    });
    each.collect()
}

pub(crate) fn leased(sandbox: &Sandbox, tag: &str, time: &str) -> Command {
    sandbox
        .command("cudawrap")
        .args(["--wait", "--", "sim-cuda", "--run", time, "--tag", tag])
}

/// So many programs that run for this time, tagged by their place in line.
pub(crate) fn several(sandbox: &Sandbox, count: usize, time: &str) -> Vec<Running> {
    let waiter = |place: usize| leased(sandbox, &place.to_string(), time);
    line_up(sandbox, (0..count).map(waiter).collect())
}

pub(crate) fn blocker(sandbox: &Sandbox) -> Running {
    let running = sandbox.leased().args(["--tag", "blocker"]).spawn();
    sandbox.until_running(1);
    running
}

pub(crate) fn end(running: Running) {
    running.kill();
}

/// The tags of the runs so far, in order, without the blocker's.
pub(crate) fn order(sandbox: &Sandbox) -> Vec<String> {
    let mut runs = sandbox.runs();
    runs.sort_by_key(|run| run.start);
    runs.into_iter()
        .map(|run| run.tag)
        .filter(|tag| tag != "blocker")
        .collect()
}
