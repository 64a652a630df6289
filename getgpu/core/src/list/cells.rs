//! What the cells of the table say of a device, or of a further program that has a part of
//! it. Pure text.

use getgpu_lock::Holder;
use getgpu_model::{Ailment, Gauge, Job, quantity::between, word_of};

use super::rows::{DeviceState, ProcessRow, Row};
use super::style::Style;

/// One line of the table: a device, or one of its further sharers.
pub struct Line<'r> {
    pub row: &'r Row,
    /// The first holder of the device, or the sharer.
    pub holder: Option<&'r Holder>,
    pub is_sharer: bool,
    /// Unix seconds.
    pub now: u64,
    pub style: Style,
}

impl<'r> Line<'r> {
    /// The lines of a device: one, and where several have parts of it one for each
    /// further sharer.
    pub fn all_of(row: &'r Row, now: u64, style: Style) -> Vec<Self> {
        let lines = if shares(row) { row.holders.len() } else { 1 };
        (0..lines)
            .map(|at| Self {
                row,
                holder: row.holders.get(at),
                is_sharer: at > 0,
                now,
                style,
            })
            .collect()
    }

    /// A text about the device, which a sharer's line leaves out.
    pub fn of_device(&self, text: impl FnOnce(&Row) -> Option<String>) -> String {
        if self.is_sharer {
            return String::new();
        }
        text(self.row).unwrap_or_else(|| "-".to_owned())
    }

    /// `MIG`, or the profile.
    pub fn profile(&self) -> String {
        let kind = if self.row.mig { "MIG" } else { "whole GPU" };
        let profile = self.row.profile.clone();
        self.of_device(|_| profile.or_else(|| Some(kind.to_owned())))
    }

    /// `0.0/4.8`, on a terminal behind a bar.
    pub fn memory(&self) -> String {
        self.of_device(|row| {
            let figures = format!("{}/{}", gib(row.memory_used), gib(row.memory_total));
            let bar = self.style.terminal.map(|_| self.bar()).unwrap_or_default();
            Some(bar + &figures)
        })
    }

    /// What the driver lets the holder's job have of the memory.
    pub fn memory_limit(&self) -> String {
        let limit = self.holder.and_then(|holder| holder.memory_limit);
        limit.map_or_else(String::new, |limit| gib(Some(limit)))
    }

    /// A number of the GPU with its unit.
    pub fn gauge(&self, gauge: Gauge, unit: &str) -> String {
        self.of_device(|row| row.gauge(gauge).map(|number| format!("{number}{unit}")))
    }

    /// How much of the memory is in use, and a blank.
    fn bar(&self) -> String {
        // Columns of a terminal.
        const CELLS: u64 = 6;
        match (self.row.memory_used, self.row.memory_total) {
            (Some(used), Some(total)) if total > 0 => {
                let filled = ((used * CELLS + total / 2) / total).min(CELLS);
                self.style.bar(filled as usize) + " "
            }
            _ => " ".repeat(CELLS as usize + 1),
        }
    }

    /// The state; of a sharer its part.
    pub fn state(&self) -> String {
        let Some(holder) = self.holder.filter(|_| self.is_sharer) else {
            return state(self.row);
        };
        let part = holder
            .share
            .map_or_else(|| "?".into(), |share| format!("{:.0}%", share * 100.0));
        let is_reserved = holder.kind == "reservation";
        format!("{} {part}", if is_reserved { "res." } else { "+" })
    }

    /// Why a device that no one holds is not known to be free, or is busy though no program is there
    /// that could be named, and what is wrong with its GPU.
    pub fn why(&self) -> String {
        let is_named = || {
            let mut processes = self.row.processes.iter();
            processes.any(|process| process.name.is_some())
        };
        let is_reason = match self.row.state {
            DeviceState::Unknown | DeviceState::Unhealthy => true,
            DeviceState::Busy => !is_named(),
            _ => false,
        };
        let text = self.row.reason.clone().filter(|_| is_reason);
        let text = text.or_else(|| Ailment::texts(&self.row.health));
        let text = text.filter(|_| !self.is_sharer);
        text.unwrap_or_default()
    }

    /// Since when a device that is held has been empty, or that it is.
    pub fn empty(&self) -> String {
        if self.is_sharer || self.row.empty != Some(true) {
            return String::new();
        }
        let since = self.row.empty_since.map(|since| self.ago(since));
        since.unwrap_or_else(|| "yes".to_owned())
    }

    /// Since when the programs on a device that is held have computed nothing.
    pub fn idle(&self) -> String {
        let since = self.row.idle_since.filter(|_| !self.is_sharer);
        since.map_or_else(String::new, |since| self.ago(since))
    }

    /// Who, which program and since when, as far as it is known.
    pub fn user(&self) -> UserCell {
        match self.holder.filter(|_| self.is_sharer) {
            Some(sharer) => UserCell::of_holder(sharer),
            None => UserCell::of(self.row),
        }
    }

    /// `ana`, or with two more holders that have no lines of their own `ana +2`.
    pub fn who(&self) -> Option<String> {
        let name = self.user().name?;
        match self.row.holders.len().saturating_sub(1) {
            more if more > 0 && !shares(self.row) => Some(format!("{name} +{more}")),
            _ => Some(name),
        }
    }

    /// When a hold ends: `in 45 min`
    pub fn until(&self) -> String {
        let until = self.holder.and_then(|holder| holder.until);
        until.map_or_else(String::new, |until| {
            format!("in {}", between(self.now, until))
        })
    }

    /// `4711.0 task 3`
    pub fn job(&self) -> String {
        let job = self.holder.and_then(|holder| {
            let (id, task) = (holder.job.clone()?, holder.task);
            Some(Job { id, task }.to_string())
        });
        job.unwrap_or_default()
    }

    /// How long ago that was.
    pub fn ago(&self, since: u64) -> String {
        between(since, self.now)
    }
}

/// Whether several have parts of the device: then each has a line.
fn shares(row: &Row) -> bool {
    row.holders.len() > 1
        && row
            .holders
            .iter()
            .any(|holder| holder.share.is_none_or(|share| share < 1.0))
}

/// Between a device's holder and another user whose program runs there.
const ALSO: &str = "; also ";

/// Who uses a device, with which program and since when, as far as it is known.
#[derive(Default)]
pub struct UserCell {
    pub name: Option<String>,
    pub program: Option<String>,
    /// In Unix seconds.
    pub since: Option<u64>,
}

impl UserCell {
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
            Some(holder) => Self::of_holder(holder),
            None => process.map(Self::of_process).unwrap_or_default(),
        }
    }

    fn of_holder(holder: &Holder) -> Self {
        let program = holder.program.as_ref();
        Self {
            name: holder.user.clone(),
            program: program.map(|name| with_pid(name, holder.pid)),
            since: holder.since,
        }
    }

    fn of_process(process: &ProcessRow) -> Self {
        let name = process.name.as_deref().unwrap_or("?");
        Self {
            name: process.user.clone(),
            program: Some(with_pid(name, i32::try_from(process.pid).ok())),
            since: process.since,
        }
    }
}

fn with_pid(name: &str, pid: Option<i32>) -> String {
    match pid {
        Some(pid) => format!("{pid} {name}"),
        None => name.to_owned(),
    }
}

/// The longest state, in letters, that has room for ` (x)` in ten columns.
const STATE_WITH_MARK: usize = 6;

/// In at most ten columns; `(x)` marks an excluded device that is in use.
fn state(row: &Row) -> String {
    let word = match row.state {
        DeviceState::Shared if row.excluded => "shared".into(),
        DeviceState::Shared if row.share_used >= 0.995 => "shared all".into(),
        DeviceState::Shared => format!("shared {:.0}%", row.share_used * 100.0),
        DeviceState::Reserved if row.excluded => "res.".into(),
        DeviceState::Reserved if row.share_used < 1.0 => {
            format!("res. {:.0}%", row.share_used * 100.0)
        }
        DeviceState::Unhealthy if row.excluded => "sick".into(),
        DeviceState::Free if row.excluded => "excluded".into(),
        DeviceState::Free if !row.allowed => "not listed".into(),
        DeviceState::Free if !row.usable => "not usable".into(),
        state => word_of(&state),
    };
    match word.len() {
        _ if !row.excluded || row.state == DeviceState::Free => word,
        ..=STATE_WITH_MARK => format!("{word} (x)"),
        _ => format!("{word}(x)"),
    }
}

fn gib(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |bytes| {
        format!("{:.1}", bytes as f64 / f64::from(1 << 30))
    })
}
