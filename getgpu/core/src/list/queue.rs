//! `--queue`: the programs that wait for a device, in the order in which they started.
//! Requests that differ stand in queues of their own, so a later one may be served first.
//! Below it, since when each device is held and, where a limit says it, until when.

use getgpu_ask::Node;
use getgpu_choose::Asked;
use getgpu_lock::LockFile;
use getgpu_lock::kept::Count;
use getgpu_model::{
    Failure,
    diag::{json, printable, show as print},
    quantity::{between, unix_seconds},
};
use getgpu_queue::{Queued, queued};

use super::rows::Row;
use super::width::aligned;

/// Prints the programs as JSON.
pub fn show_json(lock_file: &LockFile) -> Result<(), Failure> {
    let queue = queued(lock_file, &lock_file.open()?)?;
    let text = serde_json::to_string(&queue).unwrap_or_default();
    print(&json(&format!("{text}\n")))
}

/// Prints the programs as a table, and what is held as far as NVML lists it.
pub fn show(node: &mut Node<'_>, asked: Asked, lock_file: &LockFile) -> Result<(), Failure> {
    let queue = queued(lock_file, &lock_file.open()?)?;
    let listing = node.ask(|node| super::collect(node, asked, lock_file));
    let rows = listing.map(|listing| listing.rows).unwrap_or_default();
    let now = unix_seconds();
    let held: String = rows.iter().map(|row| held(row, now)).collect();
    print(&(text(&queue, now) + &held))
}

/// `device 3 (1g.5gb): held by ana for 2 h 05, ends in 45 min`; nothing for a device that
/// is not held.
fn held(row: &Row, now: u64) -> String {
    let Some(first) = row.holders.first() else {
        return String::new();
    };
    let what = if first.kind == "waiter" {
        "kept for"
    } else {
        "held by"
    };
    let name = match row.index {
        Some(index) => format!("device {index}"),
        None => row.uuid.clone(),
    };
    let profile = row.profile.as_deref();
    let profile = profile.map_or_else(String::new, |profile| format!(" ({profile})"));
    let mut users: Vec<&str> = Vec::new();
    for holder in &row.holders {
        let user = holder.user.as_deref().unwrap_or("?");
        if !users.contains(&user) {
            users.push(user);
        }
    }
    let users = users.join(", ");
    let since = first
        .since
        .map_or_else(String::new, |since| format!(" for {}", between(since, now)));
    let until = first.until.map_or_else(String::new, |until| {
        format!(", ends in {}", between(now, until))
    });
    format!(
        "{}\n",
        printable(&format!("{name}{profile}: {what} {users}{since}{until}"))
    )
}

fn text(queue: &[Queued], now: u64) -> String {
    let lines = queue.iter().map(|one| {
        [
            one.pid.to_string(),
            printable(&one.user),
            one.since
                .map_or_else(|| "-".to_owned(), |since| between(since, now)),
            one.kept.map_or_else(String::new, Count::text),
            one.tag.as_deref().map(printable).unwrap_or_default(),
            printable(&one.command),
        ]
    });
    let heading = |is_said: bool, text: &str| if is_said { text } else { "" }.to_owned();
    let head = [
        "PID".to_owned(),
        "USER".to_owned(),
        "SINCE".to_owned(),
        heading(queue.iter().any(|one| one.kept.is_some()), "KEPT"),
        heading(queue.iter().any(|one| one.tag.is_some()), "TAG"),
        "COMMAND".to_owned(),
    ];
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(lines).collect();
    aligned(&lines)
}
