//! The waiter that devices are kept for, and whether it is stopped: asked of the kernel where /proc shows the
//! process. Anybody may lock a keeper's byte, so that one that its process does not show counts for nothing.

use super::{Held, LockFile, OfdLock, layout};
use getgpu_linux::procfs::{self, fdinfo, namespaces};
use getgpu_linux::{OwnLock, Range, Stat};
use getgpu_model::Failure;

/// Process ids lie below (`PID_MAX_LIMIT`).
const PIDS: i64 = 1 << 22;
/// How many bytes are looked at; others beyond are strangers'.
const MOST: usize = 64;

/// The byte of this process.
pub(crate) fn own_byte() -> Range {
    let pid = std::process::id();
    let at = if namespaces::host_pids() {
        i64::from(pid)
    } else {
        let stat = i32::try_from(pid).ok().and_then(Stat::read);
        place_in_container(
            namespaces::pid_namespace(),
            pid,
            stat.map_or(0, |stat| stat.start),
        )
    };
    Range::byte(layout::keeper().start() + at)
}

/// The place of a process in the upper half, where the ids of the host are not known. Programs in
/// different containers often have the same id, and would count as one keeper.
pub(crate) fn place_in_container(namespace: u64, pid: u32, started: u64) -> i64 {
    let hash = layout::fnv1a(format!("{namespace}:{pid}:{started}").as_bytes());
    PIDS + ((hash ^ (hash >> 22)) & (PIDS as u64 - 1)) as i64
}

/// Whether a keeper will ever take what is kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Liveness {
    /// It is stopped (SIGSTOP), or its cgroup is frozen.
    Stopped,
    /// /proc does not tell: another user's process may be a stranger that has locked its byte, and
    /// one in another pid namespace is not shown.
    Unseen,
    /// It runs, or waits for something.
    Tries,
}

/// The waiter that devices are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// Its byte: different for each process.
    pub byte: i64,
    pub(crate) beat: Held,
    pub(crate) liveness: Liveness,
}

impl Keeper {
    /// Who it is, with its state: of several bytes the one of the liveliest process, since a
    /// stranger may have locked the others.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn seen(lock_file: &LockFile, probe: &OfdLock) -> Result<Option<Self>, Failure> {
        let scan = probe.conflicts(layout::keeper(), MOST)?;
        let keepers = scan.found.iter().filter_map(|conflict| {
            let byte = conflict.range.start() - layout::keeper().start();
            Some(Self {
                byte,
                beat: conflict.held,
                liveness: liveness(lock_file, byte)?,
            })
        });
        // The first of those that are alike.
        Ok(keepers.rev().max_by_key(|keeper| keeper.liveness))
    }

    /// Its process id, if that is one of the host's.
    pub fn pid(self) -> Option<i32> {
        pid_of(self.byte)
    }
}

fn pid_of(byte: i64) -> Option<i32> {
    i32::try_from(byte)
        .ok()
        .filter(|pid| i64::from(*pid) < PIDS)
}

/// The state of the process of a byte; none: there is no such process, or it shows that it has not
/// locked the byte.
fn liveness(lock_file: &LockFile, byte: i64) -> Option<Liveness> {
    let stat = match (pid_of(byte), namespaces::host_pids()) {
        (Some(pid), true) => Stat::read(pid),
        (None, false) => in_container(byte),
        // One of the host, seen from a container, or of a container, seen from another one.
        (Some(_), false) | (None, true) => return Some(Liveness::Unseen),
    };
    let Some(stat) = stat.filter(Stat::alive) else {
        // What hidepid hides looks as if it had exited.
        return (!procfs::shows_all()).then_some(Liveness::Unseen);
    };
    if stat.state == 'T' || procfs::cgroup::is_frozen(stat.pid) {
        return Some(Liveness::Stopped);
    }
    let directory = format!("/proc/{}/fdinfo", stat.pid);
    if std::fs::read_dir(directory).is_err() {
        return Some(Liveness::Unseen);
    }
    let pid = stat.pid.to_string();
    let own = Range::byte(layout::keeper().start() + byte);
    let shows = |locks: &[OwnLock]| !lock_file.shown(locks, own).is_empty();
    // It may change from one to the other between the two looks.
    let mut kinds = [
        fdinfo::confirmed_locks,
        fdinfo::write_locks,
        fdinfo::confirmed_locks,
    ]
    .iter();
    kinds
        .any(|locks| shows(&locks(&pid)))
        .then_some(Liveness::Tries)
}

/// The process of this pid namespace that has this byte.
fn in_container(byte: i64) -> Option<Stat> {
    let namespace = namespaces::pid_namespace();
    let place = |stat: &Stat| place_in_container(namespace, stat.pid.cast_unsigned(), stat.start);
    let mut stats = procfs::pids().into_iter().filter_map(Stat::read);
    stats.find(|stat| place(stat) == byte)
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
pub(crate) mod tests;
