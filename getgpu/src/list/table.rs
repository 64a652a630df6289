//! The listing as a table that fits 80 columns: a line per device, dashes where nothing
//! is known. Pure text; names are cut so that no line grows longer, and control
//! characters are shown, not sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use getgpu_common::diag::printable;
use getgpu_common::job::Job;
use getgpu_common::quantity::brief;

use super::rows::{Process, Row, State};
use getgpu_common::lock::holders::Holder;

/// Which columns follow column 80 of each line.
#[derive(Clone, Copy)]
struct Beyond {
    /// The batch job, if any device has one.
    jobs: bool,
    /// When a hold ends, if any does.
    ends: bool,
    /// The device's UUID.
    uuids: bool,
}

impl Beyond {
    fn append(self, line: &str, [job, end, uuid]: [&str; 3]) -> String {
        let mut line = line.trim_end().to_owned();
        let mut start = 80;
        for (shown, text, columns) in [
            (self.jobs, job, 16),
            (self.ends, end, 12),
            (self.uuids, uuid, 0),
        ] {
            if shown {
                line = format!("{line:<start$}  {text}").trim_end().to_owned();
                start += 2 + columns;
            }
        }
        format!("{line}\n")
    }
}

/// The table; with `uuids` each line ends in the device's UUID. Where there are batch jobs
/// or holds that end, these have columns too. Such lines may be longer than 80 columns.
pub fn text(rows: &[Row], uuids: bool) -> String {
    let holders = || rows.iter().flat_map(|row| &row.holders);
    let beyond = Beyond {
        jobs: holders().any(|holder| holder.job.is_some()),
        ends: holders().any(|holder| holder.until.is_some()),
        uuids,
    };
    let head = line([
        "INDEX",
        "GPU",
        "DEVICE",
        "MEMORY GIB",
        "STATE",
        "WHO",
        "PROGRAM",
        "SINCE",
    ]);
    let mut text = beyond.append(&head, ["JOB", "UNTIL", "UUID"]);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    for row in rows {
        let cells = cells(row, now);
        let row_line = line(cells.each_ref().map(String::as_str));
        let first = row.holders.first();
        text.push_str(&beyond.append(&row_line, [&job(first), &until(first, now), &row.uuid]));
        if shares(row) {
            for holder in row.holders.iter().skip(1) {
                let sharer = line(sharer(holder, now).each_ref().map(String::as_str));
                let holder = Some(holder);
                text.push_str(&beyond.append(&sharer, [&job(holder), &until(holder, now), ""]));
            }
        }
    }
    text
}

/// `4711.0 task 3`
pub fn job(holder: Option<&Holder>) -> String {
    let job = holder.and_then(|holder| {
        Some(Job {
            id: holder.job.clone()?,
            task: holder.task,
        })
    });
    job.map(|job| printable(&job.to_string()))
        .unwrap_or_default()
}

/// When a hold ends: `in 45 min`
pub fn until(holder: Option<&Holder>, now: u64) -> String {
    let left = |until: u64| Duration::from_secs(until.saturating_sub(now));
    let until = holder.and_then(|holder| holder.until);
    until.map_or_else(String::new, |until| format!("in {}", brief(left(until))))
}

/// Whether several have parts of the device: then each has a line.
pub fn shares(row: &Row) -> bool {
    row.holders.len() > 1
        && row
            .holders
            .iter()
            .any(|holder| holder.share.is_none_or(|share| share < 1.0))
}

/// The line of a further sharer: its part in the place of the state.
pub fn sharer(holder: &Holder, now: u64) -> [String; 8] {
    let part = holder
        .share
        .map_or_else(|| "?".into(), |share| format!("{:.0}%", share * 100.0));
    let program = holder
        .program
        .as_ref()
        .map(|name| with_pid(name, holder.pid));
    let [who, program, since] = [holder.user.clone(), program, ago(holder.since, now)]
        .map(|t| t.unwrap_or_else(|| "-".into()));
    let kind = if holder.kind == "reservation" {
        format!("res. {part}")
    } else {
        format!("+ {part}")
    };
    [
        "".into(),
        "".into(),
        "".into(),
        "".into(),
        kind,
        who,
        program,
        since,
    ]
}

fn ago(since: Option<u64>, now: u64) -> Option<String> {
    since.map(|since| brief(Duration::from_secs(now.saturating_sub(since))))
}

/// Between a device's holder and another user whose program runs there.
const ALSO: &str = "; also ";

/// Who uses a device, with which program and since when, as far as it is known.
#[derive(Default)]
struct User {
    name: Option<String>,
    program: Option<String>,
    since: Option<u64>,
}

impl User {
    /// The first holder, or without one the first process. A program of a user who holds
    /// nothing of the device is shown with its own user: `ana; also ben`.
    fn of(row: &Row) -> Self {
        if let (Some(holder), Some(guest)) = (row.holders.first(), row.guest()) {
            let program = Self::of_process(guest);
            let names = [holder.user.as_deref(), program.name.as_deref()];
            let [holder, guest] = names.map(|name| name.unwrap_or("?"));
            return Self {
                name: Some(format!("{holder}{ALSO}{guest}")),
                ..program
            };
        }
        let process = row.processes.first();
        match row.holders.first() {
            // A reservation's program says more than its caller, once NVML shows it.
            Some(holder) if holder.kind == "reservation" && process.is_some() => Self {
                name: holder.user.clone(),
                ..process.map(Self::of_process).unwrap_or_default()
            },
            Some(holder) => Self {
                name: holder.user.clone(),
                program: holder
                    .program
                    .as_ref()
                    .map(|name| with_pid(name, holder.pid)),
                since: holder.since,
            },
            None => process.map(Self::of_process).unwrap_or_default(),
        }
    }

    fn of_process(process: &Process) -> Self {
        let name = process.name.as_deref().unwrap_or("?");
        Self {
            name: process.user.clone(),
            program: Some(with_pid(name, i32::try_from(process.pid).ok())),
            since: process.since,
        }
    }
}

/// `ana`, or with two more holders that have no lines of their own `ana +2`.
fn with_others(user: String, row: &Row) -> String {
    match row.holders.len().saturating_sub(1) {
        more if more > 0 && !shares(row) => format!("{user} +{more}"),
        _ => user,
    }
}

pub fn cells(row: &Row, now: u64) -> [String; 8] {
    let dash = || "-".to_owned();
    let gib = |bytes: Option<u64>| {
        bytes.map_or("-".into(), |b| {
            format!("{:.1}", b as f64 / f64::from(1 << 30))
        })
    };
    let user = User::of(row);
    [
        row.index.map_or_else(dash, |index| index.to_string()),
        row.gpu.to_string(),
        row.profile.clone().unwrap_or_else(|| {
            if row.mig {
                "MIG".into()
            } else {
                "whole GPU".into()
            }
        }),
        format!("{}/{}", gib(row.memory_used), gib(row.memory_total)),
        state(row),
        user.name.map_or_else(dash, |name| with_others(name, row)),
        user.program.unwrap_or_else(dash),
        ago(user.since, now).unwrap_or_else(dash),
    ]
}

fn with_pid(name: &str, pid: Option<i32>) -> String {
    match pid {
        Some(pid) => format!("{pid} {name}"),
        None => name.to_owned(),
    }
}

/// The longest state that leaves room for ` (x)` in the ten columns.
const STATE_WITH_MARK: usize = 6;

/// In ten columns; `(x)` marks an excluded device that is in use.
fn state(row: &Row) -> String {
    let word = match row.state {
        State::Leased => "leased".into(),
        State::Shared if row.excluded => "shared".into(),
        State::Shared if row.share_used >= 0.995 => "shared all".into(),
        State::Shared => format!("shared {:.0}%", row.share_used * 100.0),
        State::Reserved if row.excluded => "res.".into(),
        State::Reserved if row.share_used < 1.0 => format!("res. {:.0}%", row.share_used * 100.0),
        State::Reserved => "reserved".into(),
        State::Busy => "busy".into(),
        State::Unknown => "unknown".into(),
        State::Claimed => "claimed".into(),
        State::Free if row.excluded => "excluded".into(),
        State::Free if !row.allowed => "not listed".into(),
        State::Free if !row.usable => "not usable".into(),
        State::Free => String::from("free"),
    };
    // The mark must not be cut off.
    match word.len() {
        _ if !row.excluded || row.state == State::Free => word,
        ..=STATE_WITH_MARK => format!("{word} (x)"),
        _ => format!("{word}(x)"),
    }
}

/// Columns of fixed width: 5 + 3 + 11 + 11 + 10 + 9 + 15 + 8, a blank between each.
fn line(cells: [&str; 8]) -> String {
    let [index, gpu, device, memory, state, who, program, since] = cells;
    let line = format!(
        "{:>5} {:>3} {:<11} {:>11} {:<10} {:<9} {:<15} {}",
        cut(index, 5),
        cut(gpu, 3),
        cut(device, 11),
        cut(memory, 11),
        cut(state, 10),
        cut(who, if who.contains(ALSO) { usize::MAX } else { 9 }),
        cut(program, 15),
        cut(since, 8)
    );
    format!("{}\n", line.trim_end())
}

fn cut(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width - 1).chain(['~']).collect()
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn no_line_is_longer_than_80_columns() {
        let long = ["1234567"; 8].map(|s| s.repeat(4));
        let text = line(long.each_ref().map(String::as_str));
        assert_eq!(text.trim_end().chars().count(), 79);
        assert!(line(["0", "0", "1g.5gb", "0.0/4.8", "free", "-", "-", "-"]).len() < 80);
    }

    #[test]
    fn a_program_name_cannot_drive_the_terminal() {
        let text = line(["0", "0", "x", "x", "x", "x", "a\x1b[2J", "x"]);
        assert!(!text.contains('\x1b'));
    }
}
