//! Who holds a device, read from the kernel: the confirmed units, and the bytes that say
//! uid and pid. The bytes only say where to look; user, program and start come from
//! /proc/PID, the share from fdinfo where readable.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::holder_args::{HolderArgs, Until};
use super::kept::Keeper;
pub use super::locks_shown::units_of;

use super::locks_shown::found_by_locks;
use super::ownership_proof::{HOLDER_NAME, HolderProcess, locks_of, shown_in};
use super::{Held, Level, LockFile, OfdLock, Side, Span, occupancy};
use getgpu_linux::{
    Process, Range, Stat,
    procfs::{self, ancestry, namespaces},
    users,
};
use getgpu_model::{Failure, Job, UNITS, Units};

/// More runs of bytes than this on one device are a flood, and are not listed.
const MOST: usize = 2000;

/// One program or holder of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// `lease`, `reservation`, `claim`, or `waiter` of a device that is kept.
    pub kind: Cow<'static, str>,
    /// Uid as the host has it; null if only a pid is known.
    pub uid: Option<u32>,
    /// Login name of the uid.
    pub user: Option<String>,
    /// The program, or the reservation's caller; null from another pid namespace.
    pub pid: Option<i32>,
    /// The process that has the lock: the program, or the reservation's holder.
    #[serde(skip)]
    pub locker: Option<i32>,
    /// Its program, if that can be read.
    pub program: Option<String>,
    /// Its part of the device; null where not known.
    pub share: Option<f64>,
    /// How much of the GPU's memory the driver lets its job have, in bytes; null where its part is
    /// counted only, and where the limit cannot be seen.
    pub memory_limit: Option<u64>,
    /// When it started, in Unix seconds.
    pub since: Option<u64>,
    /// When a hold ends at the latest, in Unix seconds; null where it has no such end.
    pub until: Option<u64>,
    /// Whether a reservation lasts whatever runs (`--hold`); null for a lease.
    pub(crate) hold: Option<bool>,
    /// The name of the reservation, if it has one.
    pub tag: Option<String>,
    /// The batch job, with its step: `4711.0`.
    pub job: Option<String>,
    /// The number of the task in the step.
    pub task: Option<u32>,
}

impl Holder {
    /// A holder of which the kernel tells the uid at most.
    pub(crate) fn by_uid(kind: &'static str, uid: Option<u32>) -> Self {
        Self {
            kind: kind.into(),
            uid,
            user: uid.map(users::name),
            ..Self::default()
        }
    }

    /// `ana (pid 4711, train)`
    pub fn who(&self) -> String {
        let user = self.user.as_deref().unwrap_or("another user");
        match (self.pid, &self.program) {
            (Some(pid), Some(program)) => format!("{user} (pid {pid}, {program})"),
            _ => user.to_owned(),
        }
    }

    /// Adds what getgpu-hold was started with: for whom, until when, under which name.
    fn describe(&mut self, holder: &HolderProcess) {
        let args = &holder.args;
        let (pid, name) = stands_for(holder);
        (self.pid, self.program) = (Some(pid), Some(name));
        let tag = args.tag.as_ref().map(|tag| &tag.name);
        self.tag = args.label.as_ref().or(tag).cloned();
        self.hold = Some(!args.is_plain());
        if let Until::Over(_, Some(longest)) = &args.until {
            self.until = self.since.map(|since| since + longest.as_secs());
        }
    }
}

/// The process that a reservation is shown with, and its name: the process that it is held for, or
/// else its caller, which may say less, as Slurm's hook does for a task. Where both have exited,
/// it is a process that keeps the reservation now. Where the holder's words name another user's
/// process it is the holder itself: its user may have written them.
pub fn stands_for(holder: &HolderProcess) -> (i32, String) {
    let (pid, name) = named_by(&holder.args);
    if holder.confirms(pid) {
        (pid, name)
    } else {
        (holder.pid, HOLDER_NAME.to_owned())
    }
}

fn named_by(args: &HolderArgs) -> (i32, String) {
    let running = |process: &Process| {
        let stat = Stat::read(process.pid).filter(Stat::alive);
        stat.filter(|stat| stat.start == process.start)
    };
    let held = args.held_for().and_then(running);
    let keeper = args.keeper.as_ref().and_then(running);
    let shown = held.or_else(|| running(&args.caller)).or(keeper);
    let (pid, comm) = shown.map_or((args.caller.pid, args.caller.name.clone()), |stat| {
        (stat.pid, stat.comm)
    });
    (pid, procfs::program_name(pid, &comm))
}

/// What the lock says of one device.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    /// Units under confirmed leases.
    pub leased: i64,
    /// Units under confirmed reservations.
    pub reserved: i64,
    /// Units under either.
    pub used: i64,
    /// One lease has the whole device.
    pub whole: bool,
    /// A call has a tentative claim on it at this moment.
    pub tentative: bool,
    /// No process has or tries any of it, and it is kept for a waiter ([`keeper`]).
    pub kept: bool,
    /// Who holds the device.
    pub holders: Vec<Holder>,
}

impl Holdings {
    /// Whether no process has any of it, and one is trying to take it at this moment.
    pub const fn claimed(&self) -> bool {
        self.tentative && self.used == 0
    }

    /// The holder to name: of this kind, if there is one, and rather another program than those
    /// that this process comes from.
    pub fn foremost(self, kind: Option<&str>) -> Option<Holder> {
        let lineage = ancestry::lineage();
        let is_above = |holder: &Holder| lineage.iter().any(|(pid, _)| holder.pid == Some(*pid));
        let is_other = |holder: &Holder| kind.is_some_and(|kind| holder.kind != kind);
        let holders = self.holders.into_iter();
        holders.min_by_key(|holder| (is_other(holder), is_above(holder)))
    }
}

/// Reads from the lock what is held of `span` and by whom.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn holdings(lock_file: &LockFile, probe: &OfdLock, span: Span) -> Result<Holdings, Failure> {
    let leases = probe.conflicts(span.lease(), MOST)?.found;
    let reservations = probe.conflicts(span.reservation(), MOST)?.found;
    // What is held inside is held on the outer range, too (`Claim::hold_on`).
    let leased = confirmed(&leases, span.lease());
    let reserved = confirmed(&reservations, span.reservation());
    let mut both = leases.iter().chain(&reservations);
    let mut held = Holdings {
        leased: leased.count(),
        reserved: reserved.count(),
        used: leased.union(&reserved).count(),
        // Locks of different descriptions are told apart, so a run over everything is one
        // program's.
        whole: leases
            .iter()
            .any(|c| c.held == Held::Confirmed && c.range.len() == UNITS),
        tentative: both.any(|c| c.held == Held::Tentative),
        ..Holdings::default()
    };
    let sides = [
        (Side::Lease, held.leased),
        (Side::Reservation, held.reserved),
    ];
    for (side, units) in sides.into_iter().filter(|(_, units)| *units > 0) {
        let found = holders_of(lock_file, probe, span, side, units)?;
        held.holders.extend(found);
    }
    held.kept = held.used == 0 && !held.tentative && occupancy::is_kept(probe, span)?;
    Ok(held)
}

/// The waiter that devices are kept for, as far as it can be read who it is.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn keeper(lock_file: &LockFile, probe: &OfdLock) -> Result<Holder, Failure> {
    let pid = Keeper::seen(lock_file, probe)?.and_then(Keeper::pid);
    let known = pid.filter(|_| namespaces::host_pids());
    let known = known.and_then(|pid| Some((procfs::euid(pid)?, Stat::read(pid)?)));
    Ok(match known {
        None => Holder::by_uid("waiter", None),
        Some((euid, stat)) => Holder {
            pid: Some(stat.pid),
            program: Some(procfs::program_name(stat.pid, &stat.comm)),
            since: since(&stat),
            ..Holder::by_uid("waiter", Some(namespaces::host_uid(euid)))
        },
    })
}

/// The units of a region that confirmed claims hold.
fn confirmed(found: &[super::Conflict], region: Range) -> Units {
    let confirmed = found.iter().filter(|c| c.held == Held::Confirmed);
    Units::of(confirmed.map(|c| c.range), region)
}

/// The host uids that hold one side of a device.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn uids(probe: &OfdLock, span: Span, side: Side) -> Result<BTreeSet<u32>, Failure> {
    numbers(probe, span.uids(side))
}

/// The process ids that hold one side of a device.
///
/// # Errors
///
/// The lock file cannot be read.
pub fn process_ids(probe: &OfdLock, span: Span, side: Side) -> Result<BTreeSet<i32>, Failure> {
    numbers(probe, span.pids(side))
}

/// The offsets inside `region` that are read-locked, each by itself: a holder signs with
/// one byte, and a lock on many says nothing of whose they are.
fn numbers<T>(probe: &OfdLock, region: Range) -> Result<BTreeSet<T>, Failure>
where
    T: TryFrom<i64> + Ord,
{
    let scan = probe.conflicts(region, MOST)?;
    let signatures = scan.found.iter();
    let signatures = signatures.filter(|c| c.held == Held::Confirmed && c.range.len() == 1);
    let numbers = signatures.map(|c| c.range.start() - region.start());
    Ok(numbers.filter_map(|n| T::try_from(n).ok()).collect())
}

fn holders_of(
    lock_file: &LockFile,
    probe: &OfdLock,
    span: Span,
    side: Side,
    units: i64,
) -> Result<Vec<Holder>, Failure> {
    let mut uids = uids(probe, span, side)?;
    let mut holders = Vec::new();
    let mut shown = Units::default();
    if namespaces::host_pids() {
        for pid in process_ids(probe, span, side)? {
            let (Some(euid), Some(stat)) = (procfs::euid(pid), Stat::read(pid)) else {
                continue;
            };
            let uid = namespaces::host_uid(euid);
            // A byte that any user could have locked counts only beside the uid of the
            // process it names, and not if that process shows that it has nothing.
            if uids.contains(&uid) && !is_innocent(lock_file, pid, side, span) {
                shown = shown.union(&units_of(lock_file, pid, side, span));
                holders.push(holder(lock_file, span, side, uid, &stat));
            }
        }
        for known in &holders {
            uids.retain(|uid| known.uid != Some(*uid));
        }
        // Root may read the locks of every process, and so need not trust bytes that do not explain
        // what is held.
        let is_explained = if namespaces::is_host_root() {
            shown.count() >= units
        } else {
            !uids.contains(&namespaces::host_uid(nix::unistd::geteuid().as_raw()))
        };
        let found = match is_explained {
            true => Vec::new(),
            false => found_by_locks(lock_file, span, side),
        };
        for (own, stat) in found {
            // A child that has inherited a lease holds nothing else.
            if own.difference(&shown).is_empty() {
                continue;
            }
            if let Some(euid) = procfs::euid(stat.pid) {
                shown = shown.union(&own);
                let uid = namespaces::host_uid(euid);
                holders.push(holder(lock_file, span, side, uid, &stat));
                uids.remove(&uid);
            }
        }
        // It may run under another uid than the one that signed (sudo).
        if namespaces::is_host_root() && shown.count() >= units {
            uids.clear();
        }
    }
    holders.extend(
        uids.into_iter()
            .map(|uid| Holder::by_uid(side.word(), Some(uid))),
    );
    // A single holder has all that is held.
    if let [only] = holders.as_mut_slice() {
        only.share = only.share.or(Some(units as f64 / UNITS as f64));
    }
    Ok(holders)
}

fn holder(lock_file: &LockFile, span: Span, side: Side, uid: u32, stat: &Stat) -> Holder {
    let own = own_units(lock_file, stat.pid, side, span).count();
    let caller = (side == Side::Reservation)
        .then(|| HolderProcess::of(stat.pid))
        .flatten();
    let job = caller
        .as_ref()
        .map_or_else(|| Job::of(stat.pid), |holder| holder.args.job.clone());
    let mut found = Holder {
        pid: Some(stat.pid),
        locker: Some(stat.pid),
        share: (own > 0).then(|| own as f64 / UNITS as f64),
        since: since(stat),
        task: job.as_ref().and_then(|job| job.task),
        job: job.map(|job| job.id),
        ..Holder::by_uid(side.word(), Some(uid))
    };
    match caller {
        Some(holder) => found.describe(&holder),
        None => found.program = Some(procfs::program_name(stat.pid, &stat.comm)),
    }
    found
}

/// Whether a process may be read and shows that it has nothing of a device, so that another
/// one has signed with its number.
pub fn is_innocent(lock_file: &LockFile, pid: i32, side: Side, span: Span) -> bool {
    std::fs::read_dir(format!("/proc/{pid}/fdinfo")).is_ok()
        && units_of(lock_file, pid, side, span).is_empty()
}

/// The units that a process has for itself. Of a lease around its own it may have inherited the
/// descriptors, and then shows these units too, so those of the inner level come first.
fn own_units(lock_file: &LockFile, pid: i32, side: Side, span: Span) -> Units {
    let locks = locks_of(pid);
    let shown = |level| shown_in(&locks, lock_file, span.of_side(side, level));
    let inner = shown(Level::Inner { reserved: false });
    if inner.is_empty() {
        shown(Level::Outer)
    } else {
        inner
    }
}

/// When a process started, in Unix seconds.
pub fn since(stat: &Stat) -> Option<u64> {
    let up = getgpu_linux::sys::boot_time().as_secs_f64()
        - stat.start as f64 / getgpu_linux::sys::ticks_per_second() as f64;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    Some(now.as_secs_f64().max(up).round() as u64 - up.max(0.0).round() as u64)
}

#[cfg(test)]
#[path = "holders_tests.rs"]
mod tests;
