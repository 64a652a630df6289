//! The listing as metrics in Prometheus' text format, for node_exporter's textfile
//! collector. Names may be added, never changed. A device has one line per state, of
//! which one is 1, so that states can be summed over a node.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use clap::ValueEnum;
use getgpu_core::list::{self, Listing};
use getgpu_lock::Holder;
use getgpu_model::{diag::printable, quantity::unix_seconds, word_of};

use crate::slurm::mark;
use getgpu_core::list::rows::{DeviceState, Row};

/// A family whose lines are of devices: name, help, and a device's value if it has one.
type PerDevice = (&'static str, &'static str, fn(&Row) -> Option<String>);

const PER_DEVICE: [PerDevice; 10] = [
    (
        "getgpu_device_in_pool",
        "Whether the device is handed out.",
        |row| flag(row.is_in_pool()),
    ),
    (
        "getgpu_device_share_used",
        "Part of the device that is leased or reserved, 0 to 1.",
        |row| Some(row.share_used.to_string()),
    ),
    (
        "getgpu_device_holders",
        "Leases and reservations on the device.",
        |row| Some(holders(row).count().to_string()),
    ),
    (
        "getgpu_device_empty",
        "Whether a device that is held is used by no program.",
        |row| flag(row.empty?),
    ),
    (
        "getgpu_device_empty_since_seconds",
        "Since when, in Unix seconds, a device that is held with max_idle is used by no program.",
        |row| Some(row.empty_since?.to_string()),
    ),
    (
        "getgpu_device_idle_since_seconds",
        "Since when, in Unix seconds, the programs on a device that is held with max_idle compute nothing.",
        |row| Some(row.idle_since?.to_string()),
    ),
    (
        "getgpu_device_short_leases",
        "Leases that ended within two seconds in the last ten minutes, where they are five or more and leases on other devices lasted.",
        |row| Some(row.short_leases?.to_string()),
    ),
    (
        "getgpu_device_excluded",
        "Whether the device is on the site's list of excluded ones.",
        |row| flag(row.excluded),
    ),
    (
        "getgpu_device_memory_bytes",
        "Memory of the device.",
        |row| Some(row.memory_total?.to_string()),
    ),
    (
        "getgpu_device_memory_used_bytes",
        "Memory of the device in use.",
        |row| Some(row.memory_used?.to_string()),
    ),
];

#[allow(
    clippy::unnecessary_wraps,
    reason = "the table's functions give an option"
)]
fn flag(set: bool) -> Option<String> {
    Some(u8::from(set).to_string())
}

/// Appends a family under its name and help; `lines` lack its name.
fn gauge(text: &mut String, name: &str, help: &str, lines: impl IntoIterator<Item = String>) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for line in lines {
        let _ = writeln!(text, "{name}{line}");
    }
}

pub fn text(listing: &Listing) -> String {
    let mut text = String::new();
    let (silent, devices): (Vec<&Row>, Vec<&Row>) =
        listing.rows.iter().partition(|row| row.is_silent());
    gauge(
        &mut text,
        "getgpu_device_state",
        "Whether the device is in this state.",
        states(&devices),
    );
    for (name, help, value) in PER_DEVICE {
        gauge(
            &mut text,
            name,
            help,
            devices
                .iter()
                .filter_map(|row| value(row).map(|value| format!("{{{}}} {value}", labels(row)))),
        );
    }
    gauge(
        &mut text,
        "getgpu_device_held",
        "Part of the device that the user, and job, holds; 1 where not known.",
        held(&devices),
    );
    gauge(
        &mut text,
        "getgpu_user_devices",
        "Devices of which the user holds a part or all.",
        list::summary::users(&listing.rows)
            .into_iter()
            .map(|(user, devices)| format!("{{user=\"{}\"}} {devices}", escaped(user))),
    );
    gauge(
        &mut text,
        "getgpu_device_ailment",
        "What NVML says is wrong with the device's GPU, or set on it.",
        devices.iter().flat_map(|row| {
            let labels = labels(row);
            let ailments = row.health.iter().map(word_of);
            ailments.map(move |word| format!("{{{labels},ailment=\"{word}\"}} 1"))
        }),
    );
    gauge(
        &mut text,
        "getgpu_gpu_silent",
        "GPUs, and MIG devices, that do not answer NVML, so that their names are not known.",
        silent.iter().map(|row| {
            let slot = row
                .mig_index
                .map_or_else(String::new, |slot| slot.to_string());
            format!("{{gpu=\"{}\",mig_index=\"{slot}\"}} 1", row.gpu)
        }),
    );
    node(listing, &mut text);
    text
}

/// The families with one number for the node.
fn node(listing: &Listing, text: &mut String) {
    let now = unix_seconds();
    let since = listing.queue.iter().filter_map(|one| one.since);
    // Their marks are beside the lock.
    let marks = Path::new(&listing.lock).parent();
    let without_part = marks.map_or(0, |marks| mark::jobs(marks).len());
    let numbers = [
        (
            "getgpu_waiting",
            "Programs that wait for a device.",
            listing.waiting as u64,
        ),
        (
            "getgpu_longest_wait_seconds",
            "How long the program that waits longest has waited, 0 if none does.",
            longest_wait(since, now),
        ),
        (
            "getgpu_problems",
            "GPUs that do not answer, and wrong lines in lists.",
            listing.problems.len() as u64,
        ),
        (
            "getgpu_slurm_jobs_without_part",
            "Jobs of Slurm that were promised a part of a device and have none.",
            without_part as u64,
        ),
        (
            "getgpu_lock_shared",
            "Whether the lock is the host's.",
            u64::from(listing.lock_shared),
        ),
    ];
    for (name, help, number) in numbers {
        gauge(text, name, help, [format!(" {number}")]);
    }
}

fn states(rows: &[&Row]) -> Vec<String> {
    let lines = rows.iter().flat_map(|row| {
        DeviceState::value_variants().iter().map(|state| {
            let (name, is) = (word_of(state), u8::from(row.state == *state));
            format!("{{{},state=\"{name}\"}} {is}", labels(row))
        })
    });
    lines.collect()
}

fn label(text: Option<&str>) -> String {
    escaped(text.unwrap_or(""))
}

/// Those that have some of a device; one for which it is only kept has none.
fn holders(row: &Row) -> impl Iterator<Item = &Holder> {
    let holders = row.holders.iter();
    holders.filter(|holder| holder.kind != "waiter")
}

/// Who holds how much of each device; one user's several parts are one series.
fn held(rows: &[&Row]) -> Vec<String> {
    let mut held: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows {
        for holder in holders(row) {
            let (user, job) = (label(holder.user.as_deref()), label(holder.job.as_deref()));
            let tag = holder.tag.as_ref();
            let tag = tag.map_or_else(String::new, |tag| format!(",tag=\"{}\"", escaped(tag)));
            let labels = format!(
                "{{{},kind=\"{}\",user=\"{user}\",job=\"{job}\"{tag}}}",
                labels(row),
                holder.kind
            );
            *held.entry(labels).or_default() += holder.share.unwrap_or(1.0);
        }
    }
    held.into_iter()
        .map(|(labels, share)| format!("{labels} {share}"))
        .collect()
}

/// In seconds; `since` and `now` in Unix seconds, and the clock may have been set back.
fn longest_wait(since: impl Iterator<Item = u64>, now: u64) -> u64 {
    since.min().map_or(0, |since| now.saturating_sub(since))
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

/// A label's value: what cannot be seen as in every output, and then backslash and quote are escaped
/// (Prometheus, exposition formats), so that a reader gets what the other outputs show.
fn escaped(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::longest_wait;

    #[test]
    fn the_first_of_the_queue_has_waited_longest() {
        assert_eq!(longest_wait([970, 940, 990].into_iter(), 1000), 60);
        assert_eq!(longest_wait([1005].into_iter(), 1000), 0);
        assert_eq!(longest_wait(std::iter::empty(), 1000), 0);
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(
            super::escaped("a\"b\\c\nd\u{202e}"),
            r#"a\"b\\c\\nd\\u{202e}"#
        );
    }
}
