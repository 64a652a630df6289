//! What this user has: reservations of our uid, and leases of our ancestors. A choice
//! believes proof alone, and the proof is fdinfo: a process of our uid whose open
//! descriptor holds the lock. Without proof it is another user's.

use super::holder_args::{HolderArgs, OPTION};
use super::{LockFile, Span};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use getgpu_linux::{
    CommandLines, OwnLock, Range, Stat,
    procfs::{self, ancestry, fdinfo, process_memory},
};
use getgpu_model::{Units, Uuid};

/// The process name of a reservation's holder.
pub const HOLDER_NAME: &str = "getgpu-hold";

/// A process that is called like a holder, and what its command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderProcess {
    /// The process id.
    pub pid: i32,
    /// Its own start, in clock ticks after boot: with the pid, which process it is.
    pub start: u64,
    /// What it was started with.
    pub args: HolderArgs,
}

impl HolderProcess {
    /// Reads the command line of `pid`, a process that is called like a holder. Its user decides
    /// what it says, and could make the read hang.
    pub fn of(pid: i32) -> Option<Self> {
        if !called(pid) {
            return None;
        }
        let (start, owner) = (Stat::read(pid)?.start, procfs::euid(pid)?);
        Self::parse(
            pid,
            start,
            &recent_lines(|lines| lines.command_line(pid, owner)),
        )
    }

    /// Whether a process that its words name is its own user's, as far as is known. Else another user
    /// may have written them, and nothing is told of that process or to it. What this process's own
    /// user has written is believed.
    pub fn confirms(&self, named: i32) -> bool {
        let owner = procfs::euid(self.pid);
        owner == Some(nix::unistd::geteuid().as_raw())
            || procfs::euid(named).is_none_or(|of_named| owner == Some(of_named))
    }

    /// Reads `getgpu --holder MIG-...[,...] caller=4711(bash) ...`, NUL between the words.
    pub fn parse(pid: i32, start: u64, bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let words = text.split('\0').skip_while(|word| *word != OPTION);
        Some(Self {
            pid,
            start,
            args: HolderArgs::parse(words.skip(1))?,
        })
    }
}

/// Asks for command lines, of which this thread reads no more that hang than one list of them in ten
/// seconds.
fn recent_lines<T>(ask: impl FnOnce(&CommandLines) -> T) -> T {
    const AGE: Duration = Duration::from_secs(10);
    thread_local!(static LINES: RefCell<Option<(Instant, CommandLines)>> = const { RefCell::new(None) });
    LINES.with_borrow_mut(|recent| {
        if recent
            .as_ref()
            .is_none_or(|(since, _)| since.elapsed() > AGE)
        {
            *recent = None;
        }
        let (_, lines) = recent.get_or_insert_with(|| (Instant::now(), CommandLines::start()));
        ask(lines)
    })
}

/// Whether a process has the name of a holder.
fn called(pid: i32) -> bool {
    procfs::comm(pid).is_some_and(|name| name == HOLDER_NAME)
}

/// The holders of `uid` (all uids for root that asks for all users') that `wanted` agrees
/// to: found by name, believed by proof.
pub fn reservations(
    lock_file: &LockFile,
    uid: Option<u32>,
    wanted: &dyn Fn(&HolderArgs) -> bool,
) -> Vec<HolderProcess> {
    search(lock_file, uid, &CommandLines::start(), wanted).proven
}

/// What a search for holders found.
#[derive(Clone, Debug, Default)]
pub struct HolderSearch {
    /// Those that certainly hold what their words say.
    pub proven: Vec<HolderProcess>,
    /// Processes that are called like a holder and hold something, and whose command lines
    /// could not be read in time: on a busy machine any of them may be one that was wanted.
    pub unread: usize,
}

/// As `reservations`, and whether all holders could be read. What is asked of another user's process
/// takes no longer than `command_lines` allow.
pub fn search(
    lock_file: &LockFile,
    uid: Option<u32>,
    command_lines: &CommandLines,
    wanted: &dyn Fn(&HolderArgs) -> bool,
) -> HolderSearch {
    let own = std::process::id() as i32;
    let ours = nix::unistd::geteuid().as_raw();
    let mut found = HolderSearch::default();
    // The cheapest question first, since it is asked of thousands: a file's owner, then a
    // name, then a whole status.
    let pids = procfs::pids().into_iter().filter(|pid| {
        *pid != own && uid.is_none_or(|uid| procfs::may_be_of(*pid, uid)) && called(*pid)
    });
    let mut by_owner: BTreeMap<u32, Vec<(i32, u64)>> = BTreeMap::new();
    for pid in pids {
        let owner = procfs::euid(pid).filter(|owner| uid.is_none_or(|uid| uid == *owner));
        if let (Some(owner), Some(stat)) = (owner, Stat::read(pid)) {
            by_owner.entry(owner).or_default().push((pid, stat.start));
        }
    }
    for (owner, processes) in by_owner {
        let lines = if owner == ours {
            let read = |(pid, start): &(i32, u64)| proven_line(lock_file, *pid, *start, wanted);
            processes.iter().map(read).collect()
        } else {
            lines_of_stranger(lock_file, owner, &processes, command_lines, wanted)
        };
        for ((pid, start), line) in processes.into_iter().zip(lines) {
            // One that has exited meanwhile has given everything up.
            found.unread += usize::from(line.is_none() && Stat::runs(pid, start));
            let holder = line.and_then(|line| HolderProcess::parse(pid, start, &line));
            found.proven.extend(holder);
        }
    }
    found.proven.sort_by_key(|holder| holder.pid);
    found
}

/// As `proven_line`, for processes of another user.
fn lines_of_stranger(
    lock_file: &LockFile,
    owner: u32,
    processes: &[(i32, u64)],
    command_lines: &CommandLines,
    wanted: &dyn Fn(&HolderArgs) -> bool,
) -> Vec<Option<Vec<u8>>> {
    let read = |number: usize| {
        // Any user may give a process this name, and whether it holds anything is seen without
        // its help.
        let process = processes.get(number);
        let process = process.filter(|(pid, _)| holds_something(lock_file, *pid));
        let Some((pid, start)) = process else {
            return vec![READ];
        };
        match proven_line(lock_file, *pid, *start, wanted) {
            Some(line) => [&[READ], &line[..]].concat(),
            None => vec![UNREAD],
        }
    };
    let answers = command_lines
        .ask_all(owner, processes.len(), read)
        .into_iter();
    let line = |answer: Option<Vec<u8>>| Some(answer?.strip_prefix(&[READ])?.to_vec());
    answers.map(line).collect()
}

/// What a child that asks about another user's process puts in front of a command line, and what it
/// sends where that cannot be read.
const READ: u8 = b'+';
const UNREAD: u8 = b'-';

/// The command line of a holder that is wanted and has what it says, nothing of any other; none where
/// it cannot be read. The proof is expensive: with 56 holders only those that matter are asked.
fn proven_line(
    lock_file: &LockFile,
    pid: i32,
    start: u64,
    wanted: &dyn Fn(&HolderArgs) -> bool,
) -> Option<Vec<u8>> {
    let line = process_memory::cmdline(pid);
    if line.is_empty() && holds_something(lock_file, pid) {
        return None;
    }
    let holder = HolderProcess::parse(pid, start, &line);
    let is_proven = |holder: HolderProcess| wanted(&holder.args) && proven(lock_file, &holder);
    Some(if holder.is_some_and(is_proven) {
        line
    } else {
        Vec::new()
    })
}

/// Whether a process shows any confirmed lock on the file.
fn holds_something(lock_file: &LockFile, pid: i32) -> bool {
    locks_of(pid)
        .iter()
        .any(|lock| lock.inode == lock_file.identity.1)
}

/// Whether the holder's own descriptors show the lock on every device that its command
/// line names.
pub fn proven(lock_file: &LockFile, holder: &HolderProcess) -> bool {
    let reserved = reserved(lock_file, holder);
    reserved.iter().all(|(_, units)| !units.is_empty())
}

/// The locks that ancestors of our uid show.
pub fn ancestors_locks() -> Vec<OwnLock> {
    let uid = nix::unistd::geteuid().as_raw();
    let own = ancestry::ancestors(std::process::id() as i32, 64);
    let own = own
        .iter()
        .filter(|stat| procfs::euid(stat.pid) == Some(uid));
    own.flat_map(|stat| locks_of(stat.pid)).collect()
}

/// The locks that this process shows, and its ancestors of our uid.
pub fn own_and_ancestors_locks() -> Vec<OwnLock> {
    let mut locks = fdinfo::confirmed_locks("self");
    locks.extend(ancestors_locks());
    locks
}

/// The locks that `pid` shows; none if they may not be read.
pub fn locks_of(pid: i32) -> Vec<OwnLock> {
    fdinfo::confirmed_locks(&pid.to_string())
}

/// The units of a device on which `locks` are a lease. They are read once, since a grant
/// may name many devices.
pub fn leased(locks: &[OwnLock], lock_file: &LockFile, device: &Uuid) -> Units {
    shown_in(locks, lock_file, Span::of(device).lease())
}

/// The units that `locks` show in a region of a device.
pub fn shown_in(locks: &[OwnLock], lock_file: &LockFile, region: Range) -> Units {
    Units::locked(locks, lock_file.identity.1, region)
}

/// Whether a reservation of these devices was made inside another one, or inside a lease: its holder
/// has its inner range too. There is one level, so that nothing is inside it.
pub fn is_inside_another(lock_file: &LockFile, holder: i32, devices: &[Uuid]) -> bool {
    let locks = locks_of(holder);
    let inner = |uuid| shown_in(&locks, lock_file, Span::of(uuid).inner_reservation());
    devices.iter().any(|uuid| !inner(uuid).is_empty())
}

/// The devices of a reservation, each with the units that the holder's own descriptors
/// show.
pub fn reserved(lock_file: &LockFile, holder: &HolderProcess) -> Vec<(Uuid, Units)> {
    let locks = locks_of(holder.pid);
    let devices = holder.args.devices.iter();
    devices
        .map(|device| {
            let reserved = shown_in(&locks, lock_file, Span::of(device).reservation());
            (device.clone(), reserved)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::tests::private_lock;

    #[test]
    fn a_reservation_inside_another_shows_both_of_its_ranges() {
        let (_directory, lock_file) = private_lock();
        let uuid = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap();
        let own = std::process::id() as i32;
        let is_inside = || is_inside_another(&lock_file, own, std::slice::from_ref(&uuid));
        let (span, lock) = (Span::of(&uuid), lock_file.open().unwrap());
        assert!(lock.try_read(span.reservation()).unwrap());
        assert!(!is_inside());
        assert!(lock.try_read(span.inner_reservation()).unwrap());
        assert!(is_inside());
    }
}
