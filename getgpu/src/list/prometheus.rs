//! The listing as metrics in Prometheus' text format, for node_exporter's textfile
//! collector. Names may be added, never changed. A device has one line per state, of
//! which one is 1, so that states can be summed over a node.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Listing;
use super::rows::{Row, State};

const STATES: [(State, &str); 7] = [
    (State::Free, "free"),
    (State::Leased, "leased"),
    (State::Shared, "shared"),
    (State::Reserved, "reserved"),
    (State::Busy, "busy"),
    (State::Unknown, "unknown"),
    (State::Claimed, "claimed"),
];

pub fn text(listing: &Listing) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, lines: Vec<String>| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for line in lines {
            let _ = writeln!(text, "{name}{line}");
        }
    };
    let each = |value: &dyn Fn(&Row) -> Option<String>| -> Vec<String> {
        let line = |row: &Row| value(row).map(|value| format!("{{{}}} {value}", labels(row)));
        listing.rows.iter().filter_map(line).collect()
    };
    let states = listing.rows.iter().flat_map(|row| {
        STATES.iter().map(|(state, name)| {
            format!(
                "{{{},state=\"{name}\"}} {}",
                labels(row),
                u8::from(row.state == *state)
            )
        })
    });
    family(
        "getgpu_device_state",
        "Whether the device is in this state.",
        states.collect(),
    );
    let pool = |row: &Row| Some(u8::from(row.index.is_some()).to_string());
    family(
        "getgpu_device_in_pool",
        "Whether the device is handed out.",
        each(&pool),
    );
    let share = |row: &Row| Some(row.share_used.to_string());
    family(
        "getgpu_device_share_used",
        "Part of the device that is leased or reserved, 0 to 1.",
        each(&share),
    );
    let holders = |row: &Row| Some(row.holders.len().to_string());
    family(
        "getgpu_device_holders",
        "Leases and reservations on the device.",
        each(&holders),
    );
    let mut held: BTreeMap<String, f64> = BTreeMap::new();
    for row in &listing.rows {
        for holder in &row.holders {
            let label = |text: &Option<String>| escaped(text.as_deref().unwrap_or(""));
            let (user, job) = (label(&holder.user), label(&holder.job));
            let labels = format!(
                "{{{},kind=\"{}\",user=\"{user}\",job=\"{job}\"}}",
                labels(row),
                holder.kind
            );
            // One user's several parts are one series.
            *held.entry(labels).or_default() += holder.share.unwrap_or(1.0);
        }
    }
    let holdings = held
        .into_iter()
        .map(|(labels, share)| format!("{labels} {share}"))
        .collect();
    family(
        "getgpu_device_held",
        "Part of the device that the user, and job, holds; 1 where not known.",
        holdings,
    );
    let empty = |row: &Row| row.empty.map(|empty| u8::from(empty).to_string());
    family(
        "getgpu_device_empty",
        "Whether a device that is held is used by no program.",
        each(&empty),
    );
    let excluded = |row: &Row| Some(u8::from(row.excluded).to_string());
    family(
        "getgpu_device_excluded",
        "Whether the device is on the site's list of excluded ones.",
        each(&excluded),
    );
    family(
        "getgpu_user_devices",
        "Devices of which the user holds a part or all.",
        super::summary::users(&listing.rows)
            .into_iter()
            .map(|(user, devices)| format!("{{user=\"{}\"}} {devices}", escaped(user)))
            .collect(),
    );
    let total = |row: &Row| row.memory_total.map(|bytes| bytes.to_string());
    family(
        "getgpu_device_memory_bytes",
        "Memory of the device.",
        each(&total),
    );
    let used = |row: &Row| row.memory_used.map(|bytes| bytes.to_string());
    family(
        "getgpu_device_memory_used_bytes",
        "Memory of the device in use.",
        each(&used),
    );
    family(
        "getgpu_waiting",
        "Programs that wait for a device.",
        vec![format!(" {}", listing.waiting)],
    );
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let longest = listing.queue.iter().filter_map(|one| one.since).min();
    family(
        "getgpu_longest_wait_seconds",
        "How long the program that waits longest has waited, 0 if none does.",
        vec![format!(
            " {}",
            longest.map_or(0, |since| now.saturating_sub(since))
        )],
    );
    family(
        "getgpu_problems",
        "Sick GPUs and wrong lines in lists.",
        vec![format!(" {}", listing.problems.len())],
    );
    let shared = u8::from(listing.lock_shared);
    family(
        "getgpu_lock_shared",
        "Whether the lock is the host's.",
        vec![format!(" {shared}")],
    );
    text
}

fn labels(row: &Row) -> String {
    let profile = row.profile.as_deref().unwrap_or("");
    format!(
        "uuid=\"{}\",gpu=\"{}\",profile=\"{}\"",
        row.uuid,
        row.gpu,
        escaped(profile)
    )
}

/// A label's value: backslash, quote and line feed are escaped (Prometheus, exposition
/// formats).
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_are_escaped() {
        assert_eq!(super::escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }
}
