//! The columns of the listing, one entry each: the heading and the text for people, the
//! name and the value in CSV.

use getgpu_lock::Holder;
use getgpu_model::{Gauge, word_of};

use super::cells::Line;
use super::rows::{ProcessRow, Row};

/// When a table has the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// Only in a pipe: a terminal has headings for GPUs.
    InPipe,
    /// As the first one, in a listing of several hosts.
    OfHosts,
    /// Where a line has something to say there.
    IfSaid,
    /// As the last one, where it fits or was asked for.
    IfFits,
    /// CSV alone has it.
    Never,
}

pub struct Column {
    /// What NVML is asked for it, if it is wanted.
    pub gauge: Option<Gauge>,
    /// In the heading of a table.
    pub heading: &'static str,
    pub when: When,
    /// Down to which width, in columns of a terminal, it gives way to the others.
    pub least: Option<usize>,
    pub text: fn(&Line<'_>) -> String,
    /// In CSV; none: not there.
    pub csv: Option<Csv>,
}

/// The column in CSV: its name, and its value for a program.
pub struct Csv {
    pub name: &'static str,
    pub value: fn(&Row) -> String,
}

/// All columns, in the order of CSV; a table has that of a UUID last.
#[rustfmt::skip]
#[allow(clippy::redundant_closure_for_method_calls, reason = "a method is of one lifetime of Line")]
pub const COLUMNS: &[Column] = &[
    table("HOST", |line| text(line.row.host.as_ref())).when(When::OfHosts),
    table("INDEX", |line| line.of_device(|row| row.index.map(|index| index.to_string()))).csv("index", |row| text(row.index)),
    table("UUID", |line| line.of_device(|row| Some(row.uuid.clone()))).when(When::IfFits).csv("uuid", |row| row.uuid.clone()),
    table("GPU", |line| line.of_device(|row| Some(row.gpu.to_string()))).when(When::InPipe).csv("gpu", |row| row.gpu.to_string()),
    csv("gpu_name", |row| text(row.gpu_name.as_ref())),
    table("DEVICE", |line| line.profile()).csv("profile", |row| text(row.profile.as_ref())),
    csv("memory_total", |row| text(row.memory_total)),
    table("MEMORY GIB", |line| line.memory()).csv("memory_used", |row| text(row.memory_used)),
    table("UTIL", |line| line.gauge(Gauge::Utilization, "%")).of_gpu(Gauge::Utilization).csv("gpu_utilization", |row| text(row.gauge(Gauge::Utilization))),
    table("POWER", |line| line.gauge(Gauge::Power, " W")).of_gpu(Gauge::Power).csv("gpu_power", |row| text(row.gauge(Gauge::Power))),
    table("TEMP", |line| line.gauge(Gauge::Temperature, " C")).of_gpu(Gauge::Temperature).csv("gpu_temperature", |row| text(row.gauge(Gauge::Temperature))),
    table("STATE", |line| line.state()).csv("state", |row| word_of(&row.state)),
    csv("share_used", |row| row.share_used.to_string()),
    table("EMPTY", |line| line.empty()).when(When::IfSaid).csv("empty", |row| text(row.empty)),
    csv("empty_since", |row| text(row.empty_since)),
    table("IDLE", |line| line.idle()).when(When::IfSaid).csv("idle_since", |row| text(row.idle_since)),
    csv("kinds", |row| of_holders(row, |holder| Some(holder.kind.to_string()))),
    table("WHO", |line| known(line.who())).least(8).csv("users", |row| of_users(row, |holder| holder.user.clone(), |process| process.user.clone())),
    csv("pids", |row| of_users(row, |holder| holder.pid.map(|pid| pid.to_string()), |process| Some(process.pid.to_string()))),
    table("PROGRAM", |line| known(line.user().program)).least(12).csv("programs", |row| of_users(row, |holder| holder.program.clone(), |process| process.name.clone())),
    csv("shares", |row| of_holders(row, |holder| holder.share.map(|share| share.to_string()))),
    table("LIMIT GIB", |line| line.memory_limit()).when(When::IfSaid).csv("memory_limits", |row| of_holders(row, |holder| holder.memory_limit.map(|limit| limit.to_string()))),
    table("SINCE", |line| known(line.user().since.map(|since| line.ago(since)))).csv("since", |row| of_holders(row, |holder| holder.since.map(|since| since.to_string()))),
    table("UNTIL", |line| line.until()).when(When::IfSaid).csv("until", |row| of_holders(row, |holder| holder.until.map(|until| until.to_string()))),
    table("TAG", |line| text(line.holder.and_then(|holder| holder.tag.as_ref()))).when(When::IfSaid).least(6).csv("tags", |row| of_holders(row, |holder| holder.tag.clone())),
    table("WHY", |line| line.why()).when(When::IfSaid).least(8).csv("reason", |row| text(row.reason.as_ref())),
    table("JOB", |line| line.job()).when(When::IfSaid).least(8).csv("jobs", |row| of_holders(row, |holder| holder.job.clone())),
    csv("host", |row| text(row.host.as_ref())),
];

const fn table(heading: &'static str, text: fn(&Line<'_>) -> String) -> Column {
    Column {
        gauge: None,
        heading,
        when: When::Always,
        least: None,
        text,
        csv: None,
    }
}

/// A column of CSV alone.
const fn csv(name: &'static str, value: fn(&Row) -> String) -> Column {
    table("", |_| String::new())
        .when(When::Never)
        .csv(name, value)
}

impl Column {
    /// Whether a listing has it, with these numbers of GPUs.
    pub fn is_wanted(&self, gauges: &[Gauge]) -> bool {
        self.gauge.is_none_or(|gauge| gauges.contains(&gauge))
    }

    const fn of_gpu(mut self, gauge: Gauge) -> Self {
        self.gauge = Some(gauge);
        self
    }

    const fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }

    const fn least(mut self, columns: usize) -> Self {
        self.least = Some(columns);
        self
    }

    const fn csv(mut self, name: &'static str, value: fn(&Row) -> String) -> Self {
        self.csv = Some(Csv { name, value });
        self
    }
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// A value of each holder; where the device is not held, of each process that NVML shows.
fn of_users(
    row: &Row,
    of_holder: fn(&Holder) -> Option<String>,
    of_process: fn(&ProcessRow) -> Option<String>,
) -> String {
    if row.holders.is_empty() {
        return joined(row.processes.iter().map(of_process));
    }
    of_holders(row, of_holder)
}

/// A value of each holder.
fn of_holders(row: &Row, value: fn(&Holder) -> Option<String>) -> String {
    joined(row.holders.iter().map(value))
}

/// The values with semicolons between; nothing if there is none.
fn joined(values: impl Iterator<Item = Option<String>>) -> String {
    let values: Vec<String> = values.map(Option::unwrap_or_default).collect();
    if values.iter().all(String::is_empty) {
        return String::new();
    }
    values.join(";")
}
