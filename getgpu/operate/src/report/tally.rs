//! The sums of a report, a row for each user, tag or program, the most hours first. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use getgpu_model::diag::{json, printable};
use getgpu_model::word_of;
use serde::Serialize;

use super::lines::{Event, Logged};
use getgpu_core::list::width::aligned;
use getgpu_core::options::ReportBy;

/// The sums of one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct TallyRow {
    name: String,
    /// Devices that were leased or reserved.
    starts: usize,
    /// Devices times their part times hours, of programs and of reservations that have ended.
    leased_hours: f64,
    reserved_hours: f64,
    /// Of the leased hours those in which a monitor saw nothing computed.
    idle_hours: f64,
    /// Hours that calls waited before they had a device.
    waited_hours: f64,
    /// Calls that had none.
    refused: usize,
}

impl TallyRow {
    fn add(&mut self, what: &Logged) {
        match what {
            Logged::Began { waited } => {
                self.starts += 1;
                self.waited_hours += hours(*waited);
            }
            Logged::Ended {
                held,
                idle,
                devices,
                is_lease: true,
            } => {
                self.leased_hours += hours(*held) * devices;
                self.idle_hours += hours(*idle) * devices;
            }
            Logged::Ended { held, devices, .. } => self.reserved_hours += hours(*held) * devices,
            Logged::Refused => self.refused += 1,
        }
    }

    fn cells(&self) -> [String; 7] {
        let hours = |hours: f64| format!("{hours:.2}");
        [
            printable(&self.name),
            self.starts.to_string(),
            hours(self.leased_hours),
            hours(self.idle_hours),
            hours(self.reserved_hours),
            hours(self.waited_hours),
            self.refused.to_string(),
        ]
    }
}

fn hours(time: Duration) -> f64 {
    time.as_secs_f64() / 3600.0
}

/// A report.
#[derive(Debug, Serialize)]
pub(super) struct Tally {
    schema: u32,
    by: String,
    rows: Vec<TallyRow>,
}

impl Tally {
    pub(super) fn of(by: ReportBy, events: &[Event]) -> Self {
        let mut rows: BTreeMap<&str, TallyRow> = BTreeMap::new();
        for event in events {
            let name = match by {
                ReportBy::User => &event.user,
                ReportBy::Program => &event.program,
                ReportBy::Tag => event.tag.as_deref().unwrap_or("-"),
            };
            rows.entry(name).or_default().add(&event.what);
        }
        let named = rows.into_iter().map(|(name, row)| TallyRow {
            name: name.to_owned(),
            ..row
        });
        let mut rows: Vec<TallyRow> = named.collect();
        let used = |row: &TallyRow| row.leased_hours + row.reserved_hours;
        rows.sort_by(|one, other| used(other).total_cmp(&used(one)));
        Self {
            schema: 1,
            by: word_of(&by),
            rows,
        }
    }

    pub(super) fn json(&self) -> String {
        json(&(serde_json::to_string(self).unwrap_or_default() + "\n"))
    }

    pub(super) fn table(&self) -> String {
        let by = self.by.to_uppercase();
        let heading = [
            &by,
            "STARTS",
            "LEASED H",
            "IDLE H",
            "RESERVED H",
            "WAITED H",
            "REFUSED",
        ];
        let mut lines = vec![heading.map(str::to_owned)];
        lines.extend(self.rows.iter().map(TallyRow::cells));
        aligned(&lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_devices_times_parts_times_time() {
        let event = |what, user: &str, tag: Option<&str>| Event {
            what,
            user: user.into(),
            program: "app".into(),
            tag: tag.map(str::to_owned),
        };
        let hour = Duration::from_secs(3600);
        let ended = |devices, is_lease| Logged::Ended {
            held: hour,
            idle: hour / 4,
            devices,
            is_lease,
        };
        let events = [
            event(Logged::Began { waited: hour / 2 }, "ana", Some("exp")),
            event(ended(0.5, true), "ana", Some("exp")),
            event(ended(2.0, false), "bo\u{1b}[2J", None),
            event(Logged::Refused, "bo\u{1b}[2J", None),
        ];
        // Any user can write such a line, and root reads the table on a terminal.
        let table = "USER        STARTS LEASED H IDLE H RESERVED H WAITED H REFUSED\n\
                     bo\\u{1b}[2J 0      0.00     0.00   2.00       0.00     1\n\
                     ana         1      0.50     0.12   0.00       0.50     0\n";
        assert_eq!(Tally::of(ReportBy::User, &events).table(), table);
        let json = Tally::of(ReportBy::Tag, &events).json();
        assert!(
            json.starts_with("{\"schema\":1,\"by\":\"tag\",\"rows\":[{\"name\":\"-\",\"starts\":0"),
            "{json}"
        );
    }
}
