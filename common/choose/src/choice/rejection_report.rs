//! Telling why there is nothing to have: who holds what when none is free, and what the
//! node has when nothing fits. Counting is pure; the names come from the lock.

use std::collections::BTreeMap;

use crate::pool::{Filter, Outside};
use getgpu_ask::HANGS_OR_SICK;
use getgpu_linux::procfs::{self, namespaces};
use getgpu_lock::{OfdLock, Side, Span, holders};
use getgpu_model::{
    Activity, Device, Failure, Inventory, Kind, Silent, Usage, WITHOUT_PREFIX, WITHOUT_PREFIX_HINT,
    quantity,
};

/// What can be had of one device.
#[derive(Debug)]
pub enum Offer<T> {
    Available(T),
    Rejected(Rejected),
}

impl<T> Offer<T> {
    pub fn is_available(&self) -> bool {
        matches!(self, Self::Available(_))
    }
}

/// Why a device was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Leased or reserved.
    Taken,
    /// Another call had claimed it tentatively.
    Tentative,
    /// It is free, and with it there are still fewer than are wanted.
    TooFew,
    /// Less of it is free than the share that is wanted.
    NoRoom,
    /// NVML shows it in use.
    Busy(String),
    /// NVML would not tell.
    Unknown(String),
    /// CUDA cannot or should not start there.
    Unhealthy(String),
}

impl Rejected {
    /// Whether the reason is what others hold on the lock.
    pub fn is_locks(&self) -> bool {
        matches!(self, Self::Taken | Self::Tentative | Self::NoRoom)
    }

    /// Whether the reason is what NVML said, or that it said nothing.
    pub fn is_nvmls(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Unknown(_) | Self::Unhealthy(_))
    }
}

/// Why each device of the pool is in use, for the one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectionReport {
    /// Leased devices per user.
    pub users: BTreeMap<String, usize>,
    /// Leased by a user whose name cannot be read.
    pub leased: usize,
    /// Reserved, or claimed tentatively.
    pub reserved: usize,
    /// Those of them that are reserved for this user.
    pub own: usize,
    /// Used by programs that never asked.
    pub other: usize,
    /// NVML would not tell.
    pub unknown: usize,
    /// CUDA cannot or should not start there.
    pub unhealthy: usize,
    /// Free, but fewer than are wanted.
    pub free: usize,
}

impl RejectionReport {
    /// Counts what was rejected; `probe` reads from the lock who has it.
    pub fn take(rejected: &[(Device, Rejected)], probe: &OfdLock) -> Self {
        let mut report = Self::default();
        for (device, why) in rejected {
            match why {
                Rejected::TooFew => report.free += 1,
                Rejected::Busy(_) => report.other += 1,
                Rejected::Unknown(_) => report.unknown += 1,
                Rejected::Unhealthy(_) => report.unhealthy += 1,
                Rejected::Taken | Rejected::Tentative | Rejected::NoRoom => {
                    report.count_holder(probe, Span::of(&device.uuid));
                }
            }
        }
        report
    }

    fn count_holder(&mut self, probe: &OfdLock, span: Span) {
        let leased = probe.conflict(span.lease()).ok().flatten().is_some();
        if !leased {
            self.reserved += 1;
            let uids = holders::uids(probe, span, Side::Reservation).unwrap_or_default();
            let own = namespaces::host_uid(nix::unistd::geteuid().as_raw());
            self.own += usize::from(uids.contains(&own));
            return;
        }
        let uids = holders::uids(probe, span, Side::Lease).unwrap_or_default();
        match uids.first() {
            Some(uid) => *self.users.entry(procfs::user_name(*uid)).or_default() += 1,
            None => self.leased += 1,
        }
    }

    fn in_use(&self) -> usize {
        self.users.values().sum::<usize>()
            + self.leased
            + self.reserved
            + self.other
            + self.unknown
            + self.unhealthy
    }

    /// `7 of 7 in use (ana 3, ben 2, reserved 1, other programs 1)`
    pub fn text(&self) -> String {
        let (used, total) = (self.in_use(), self.in_use() + self.free);
        let named = self.users.iter().map(|(user, n)| (user.as_str(), *n));
        let rest = [
            ("leased", self.leased),
            ("reserved", self.reserved),
            ("other programs", self.other),
            ("unknown to NVML", self.unknown),
            ("unhealthy", self.unhealthy),
        ];
        let parts: Vec<String> = named
            .chain(rest)
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        format!("{used} of {total} in use ({})", parts.join(", "))
    }

    /// What this user can do, who has reserved some of them.
    pub fn remedy(&self) -> Option<String> {
        let them = match self.own {
            0 => return None,
            1 => "1 of them is",
            many => &format!("{many} of them are"),
        };
        Some(format!(
            "{them} reserved for you: getgpu --list --mine shows which, getgpu --release-all gives them back"
        ))
    }

    /// The failure that says it.
    pub fn failure(&self) -> Failure {
        let what = if self.free > 0 {
            "too few free devices"
        } else {
            "no free device"
        };
        Failure::new(Kind::NoneFree, format!("{what}: {}", self.text()))
    }
}

/// Why a device with this use is not free; none if it is idle.
pub fn objection(usage: Usage) -> Option<Rejected> {
    let reason = usage.reason.unwrap_or_default();
    match usage.activity {
        Activity::Idle => None,
        Activity::Busy => Some(Rejected::Busy(reason)),
        Activity::Unknown => Some(Rejected::Unknown(reason)),
        Activity::Unhealthy => Some(Rejected::Unhealthy(reason)),
    }
}

/// The devices to choose from, each with its place in the order of the node. Fewer than
/// `count` is a failure that waiting cannot cure.
pub fn pool<'i>(
    filter: &Filter,
    inventory: &'i Inventory,
    count: usize,
) -> Result<Vec<(usize, &'i Device)>, Failure> {
    let outside = filter.sort(inventory);
    let inside = inventory
        .devices
        .iter()
        .enumerate()
        .zip(&outside)
        .filter(|(_, out)| out.is_none());
    let pool: Vec<(usize, &Device)> = inside.map(|(device, _)| device).collect();
    let there = match pool.len() {
        0 => return Err(empty_pool(filter, inventory, &outside)),
        there if there >= count => return Ok(pool),
        there => there,
    };
    let there = if there == 1 {
        "1 such device exists".to_owned()
    } else {
        format!("{there} such devices exist")
    };
    let wanted_by = filter
        .place("count")
        .map_or_else(String::new, |place| format!(" ({place})"));
    let (there_by, hint) = match filter.grant {
        Some(_) => (" within CUDA_VISIBLE_DEVICES", filter.grant_remedy),
        None => ("", "getgpu --list shows what there is"),
    };
    let silent = inventory.nameless().next();
    let silent = silent.map_or_else(String::new, |silent| format!("; {silent}"));
    Err(Failure::new(
        Kind::NoDevice,
        format!("{count} devices wanted{wanted_by}: only {there} here{there_by}{silent}"),
    )
    .hint(hint))
}

/// What to do in a container that was given a GPU in MIG mode and none of its devices.
pub const CONTAINER_WITHOUT_MIG: &str = "if the host's GPU has MIG devices, this container was not given one: name it when the container is started, such as docker run --gpus device=MIG-UUID";

/// Nothing in the pool: what there is instead. Asking again cannot help.
pub fn empty_pool(filter: &Filter, inventory: &Inventory, outside: &[Option<Outside>]) -> Failure {
    if inventory.devices.is_empty() {
        return match inventory.troubles().first() {
            Some(problem) if problem.contains(WITHOUT_PREFIX) => {
                Failure::new(Kind::Nvml, format!("no device can be used: {problem}"))
                    .hint(WITHOUT_PREFIX_HINT)
            }
            Some(problem) => Failure::new(Kind::Nvml, format!("no device answers: {problem}"))
                .hint("does `nvidia-smi -L` work on this node?"),
            None if inventory.gpus.is_empty() => {
                Failure::new(Kind::NoUsableGpu, "no NVIDIA GPU on this node")
            }
            None => Failure::new(
                Kind::NoDevice,
                "no device on this node: its GPUs are in MIG mode and have no MIG devices",
            )
            .hint(if namespaces::in_container() {
                CONTAINER_WITHOUT_MIG
            } else {
                "an administrator can create them: nvidia-smi mig -cgi ... -C"
            }),
        };
    }
    if outside.iter().all(|out| *out == Some(Outside::NotUsable)) {
        return Failure::new(Kind::NoUsableGpu, "no GPU that this process may open");
    }
    let counts = counted(outside.iter().flatten().copied());
    let parts: Vec<String> = counts
        .iter()
        .map(|(out, n)| format!("{n} {}", filter.reason(*out)))
        .collect();
    let unread = unread_lines(filter, outside);
    let failed = |kind, what: &str, more: &str| {
        let parts = parts.join("; ");
        Failure::new(
            kind,
            format!("no device of the request {what} here: {parts}{more}"),
        )
    };
    // What does not answer may be what is asked for.
    if let Some(silent) = inventory
        .nameless()
        .find(|silent| may_be_on(filter, silent))
    {
        let failure = failed(Kind::Nvml, "answers", &format!("{unread}; {silent}"));
        return failure.hint(HANGS_OR_SICK);
    }
    failed(Kind::NoDevice, "exists", &unread)
        .hint(there_is(inventory).unwrap_or_else(|| "getgpu --list shows what there is".into()))
}

/// Whether what does not answer may be on a GPU that is asked for.
fn may_be_on(filter: &Filter, silent: &Silent) -> bool {
    let gpus = filter.gpu_indices();
    gpus.is_none_or(|gpus| gpus.is_empty() || gpus.contains(&silent.gpu))
}

/// How many lines of a list of allowed devices could not be read, where the list keeps devices
/// out.
fn unread_lines(filter: &Filter, outside: &[Option<Outside>]) -> String {
    let bad = filter.allowed.as_ref().map_or(0, |list| list.bad.len());
    if bad == 0 || !outside.contains(&Some(Outside::NotAllowed)) {
        return String::new();
    }
    let lines = quantity::counted(bad, "line");
    format!("; {lines} of that list could not be read as a UUID (getgpu --explain shows them)")
}

/// Each with how often it comes, in the order in which they first come.
fn counted<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<(T, usize)> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for one in all {
        match counts.iter_mut().find(|(known, _)| *known == one) {
            Some((_, n)) => *n += 1,
            None => counts.push((one, 1)),
        }
    }
    counts
}

/// `here: 4 x 1g.5gb (4.75 GiB), 1 x whole GPU (39.4 GiB)`, where sizes were asked for.
fn there_is(inventory: &Inventory) -> Option<String> {
    let kinds = inventory.devices.iter().map(|device| {
        let name = device
            .profile
            .as_deref()
            .unwrap_or(if device.slot.is_some() {
                "MIG device"
            } else {
                "whole GPU"
            });
        let size = device.memory? as f64 / f64::from(1 << 30);
        Some(format!("{name} ({size:.2} GiB)"))
    });
    let kinds = counted(kinds.collect::<Option<Vec<_>>>()?);
    let parts: Vec<String> = kinds
        .iter()
        .map(|(kind, n)| format!("{n} x {kind}"))
        .collect();
    (!parts.is_empty()).then(|| format!("here: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_who() {
        let report = |users: &[(&str, usize)], reserved, other, free| RejectionReport {
            users: users
                .iter()
                .map(|(user, count)| ((*user).into(), *count))
                .collect(),
            reserved,
            other,
            free,
            ..RejectionReport::default()
        };
        let text = report(&[("ana", 3), ("ben", 2)], 1, 1, 0).text();
        assert_eq!(
            text,
            "7 of 7 in use (ana 3, ben 2, reserved 1, other programs 1)"
        );
        let some = report(&[], 3, 0, 1).failure().message;
        assert_eq!(some, "too few free devices: 3 of 4 in use (reserved 3)");
    }

    #[test]
    fn what_there_is_instead() {
        let sick = Inventory {
            problems: vec!["GPU 0: lost".into()],
            ..Inventory::default()
        };
        assert_eq!(empty_pool(&Filter::default(), &sick, &[]).kind, Kind::Nvml);
        assert_eq!(
            empty_pool(&Filter::default(), &Inventory::default(), &[]).kind,
            Kind::NoUsableGpu
        );
    }
}
