//! Waiters as the tests of the queue start, count and end them.

use std::time::Duration;

use getgpu_tests::listing;
use harness::{Command, Running, Sandbox, Signal, wait};

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

pub(crate) fn blocker(sandbox: &Sandbox) -> Running {
    let running = sandbox
        .command("cudawrap")
        .args(["--", "sim-cuda", "--run", "forever", "--tag", "blocker"])
        .spawn();
    sandbox.until_running(1);
    running
}

pub(crate) fn end(running: Running) {
    running.signal(Signal::SIGKILL);
    running.wait();
}

/// The tags of the runs so far, in order, without the blocker's.
pub(crate) fn order(sandbox: &Sandbox) -> Vec<String> {
    let mut runs = sandbox.folder().runs().unwrap();
    runs.sort_by_key(|run| run.start);
    runs.into_iter()
        .map(|run| run.tag)
        .filter(|tag| tag != "blocker")
        .collect()
}
