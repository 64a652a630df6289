//! `--queue`: the programs that wait for a device, in the order in which they started.
//! Requests that differ stand in queues of their own, so a later one may be served first.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use getgpu_common::diag::{printable, show as print};
use getgpu_common::error::Failure;
use getgpu_common::lock::LockFile;
use getgpu_common::quantity::brief;
use getgpu_common::queue::queued::{Queued, queued};

use super::columns::{padded, width};

/// Prints them, as JSON or as a table.
pub fn show(lock_file: &LockFile, json: bool) -> Result<(), Failure> {
    let queue = queued(&lock_file.open()?)?;
    if json {
        let text = serde_json::to_string(&queue).unwrap_or_default();
        return print(&format!("{text}\n"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    print(&text(&queue, now.map_or(0, |now| now.as_secs())))
}

fn text(queue: &[Queued], now: u64) -> String {
    let since = |since: u64| brief(Duration::from_secs(now.saturating_sub(since)));
    let lines = queue.iter().map(|one| {
        [
            one.pid.to_string(),
            printable(&one.user),
            one.since.map_or_else(|| "-".to_owned(), since),
            printable(&one.command),
        ]
    });
    let head = ["PID", "USER", "SINCE", "COMMAND"].map(str::to_owned);
    let lines: Vec<[String; 4]> = std::iter::once(head).chain(lines).collect();
    let widest = |column: usize| lines.iter().map(|line| width(&line[column])).max();
    let widths = [0, 1, 2].map(|column| widest(column).unwrap_or(0));
    let line = |cells: &[String; 4]| {
        let [pid, user, since] = [0, 1, 2].map(|at| padded(&cells[at], widths[at]));
        format!("{pid} {user} {since} {}\n", cells[3])
    };
    lines.iter().map(line).collect()
}
