//! Looking at /proc for programs that name the device: at the caller and its descendants,
//! which is quick, or at all processes of the uid, which is kept to one per cent of a
//! processor. Only here are the environments of unknown processes read.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use getgpu_linux::{
    Secret, Stat,
    procfs::{self, file, process_memory},
    sys,
};
use getgpu_lock::{HOLDER_NAME, HolderArgs, HolderProcess};

use super::background::is_background;
use super::held_lock::HeldLock;
use super::process_match::{
    EnvMatch, Evidence, MatchedProcess, ProcessView, counts, find, is_told, key, match_value,
};

/// Whether a UUID in an argument of a process keeps the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentUse {
    /// It does, below the caller.
    Counts,
    /// It does not: the process may be of another reservation.
    Ignored,
}

/// Looks for the programs of one reservation.
pub struct ProcScanner<'a> {
    args: &'a HolderArgs,
    lock: &'a HeldLock<'a>,
    uid: u32,
    view: ProcessView,
    /// Only a part of a device is reserved, which others may share.
    shared: bool,
    /// Whether the kernel lists the children of a process (CONFIG_PROC_CHILDREN); else
    /// only a look at everything finds them.
    tree: bool,
    /// When all processes may be looked at again.
    next_full: Instant,
    /// The processes that the current look at all of them still has to read.
    rest: Vec<i32>,
    /// How much processor time that look has used.
    rolled: Duration,
    /// The address of the arguments of the process that the device is held for; 0: there is none,
    /// or it may not be read.
    held_arguments: u64,
}

/// How many of all processes are looked at in one go.
const AT_ONCE: usize = 32;

/// Pauses while the kernel executes a program, the first and the last of a row that doubles.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(256);

impl<'a> ProcScanner<'a> {
    /// Remembers, where the device was granted before, which programs run already.
    pub fn new(args: &'a HolderArgs, lock: &'a HeldLock<'a>) -> Self {
        let uid = nix::unistd::geteuid().as_raw();
        let mut view = ProcessView::of(args, sys::ticks_per_second());
        view.caller_arguments = Stat::read(args.caller.pid).map_or(0, |stat| stat.arg_start);
        view.was_granted = args.granted || caller_names(args);
        if view.was_granted {
            let own = procfs::pids()
                .into_iter()
                .filter(|pid| procfs::euid(*pid) == Some(uid));
            view.granted = own
                .filter_map(Stat::read)
                .map(|stat| (key(&stat), stat.arg_start))
                .collect();
        }
        Self {
            args,
            lock,
            uid,
            view,
            shared: lock.is_share(),
            tree: Path::new("/proc/thread-self/children").exists(),
            next_full: Instant::now(),
            rest: Vec::new(),
            rolled: Duration::ZERO,
            held_arguments: args
                .held_for()
                .and_then(|process| Stat::read(process.pid))
                .map_or(0, |stat| stat.arg_start),
        }
    }

    /// Looks at what the process of a hold has left behind, once it has exited: at all programs, and
    /// at its own forks, which have executed nothing and so do not show what they were told. A
    /// program that the kernel is just executing shows nothing at all.
    pub fn left_behind(&mut self) -> MatchedProcess {
        // This process was left behind, too, by the getgpu that started it.
        self.view.adopter = Some(nix::unistd::getppid().as_raw());
        let mut pause = BETWEEN_LOOKS;
        loop {
            let all = self.everything();
            let later = all.iter().map(|(stat, _)| stat);
            let later = later.filter(|stat| stat.start >= self.args.since && counts(stat));
            // A fork that still has a shell above it is a sibling, and was told of another device.
            let is_own = |stat: &Stat| {
                stat.forked && stat.arg_start != 0 && stat.arg_start == self.held_arguments
            };
            let is_orphan = |stat: &Stat| {
                let parent = all.iter().find(|(parent, _)| parent.pid == stat.ppid);
                parent.is_none_or(|(parent, _)| parent.arg_start != stat.arg_start)
            };
            let forks = later.clone().filter(|stat| is_own(stat) && is_orphan(stat));
            self.view.seen.extend(forks.map(key));
            let executing = later.filter(|stat| !stat.exiting && stat.arg_start == 0);
            // Those that do not let themselves be read belong to root in /proc.
            let executing = executing
                .filter(|stat| procfs::owner(stat.pid) == Some(self.uid))
                .count();
            if executing == 0 || pause > LAST_PAUSE {
                return self.note_all(&all);
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
    }

    /// Looks at the caller and its descendants.
    pub fn quick(&mut self) -> MatchedProcess {
        let below = self.below(
            vec![self.view.caller.0],
            &mut HashSet::new(),
            ArgumentUse::Counts,
        );
        self.note(&below)
    }

    /// Looks at all processes of the uid, and at their descendants under whatever uid.
    pub fn full(&mut self) -> MatchedProcess {
        let all = self.everything();
        self.note_all(&all)
    }

    fn note_all(&mut self, all: &[(Stat, Evidence)]) -> MatchedProcess {
        if self.shared {
            // Read after the processes, so that the reservation of each one's starter is known.
            self.view.other_callers = self.other_callers();
        }
        self.note(all)
    }

    /// Looks at the caller's processes, and at the next few of all others.
    pub fn scan(&mut self) -> MatchedProcess {
        let mut found = self.quick();
        if found.users.is_empty() {
            found.join(self.roll());
        }
        found
    }

    /// Looks at the next few of all processes, if that is due by the one per cent. A look
    /// at all of them in one go takes so long on a busy machine that a short program of
    /// the caller would begin and end unseen meanwhile.
    fn roll(&mut self) -> MatchedProcess {
        if self.rest.is_empty() {
            if Instant::now() < self.next_full {
                return MatchedProcess::default();
            }
            (self.rest, self.rolled) = (procfs::pids(), Duration::ZERO);
        }
        let began = sys::processor_time();
        let next = self.rest.split_off(self.rest.len().saturating_sub(AT_ONCE));
        let own = next
            .into_iter()
            .filter(|pid| procfs::may_be_of(*pid, self.uid));
        let some: Vec<_> = own
            .filter_map(Stat::read)
            .map(|stat| self.with_evidence(stat, ArgumentUse::Ignored))
            .collect();
        let found = self.find(&some);
        self.rolled += sys::processor_time().saturating_sub(began);
        if self.rest.is_empty() {
            self.next_full = Instant::now() + self.rolled * 100;
        }
        if !found.users.is_empty() {
            // With its descendants, which may run under another uid, and with its ancestors:
            // it may be the program of another reservation.
            return self.full();
        }
        found
    }

    fn find(&mut self, processes: &[(Stat, Evidence)]) -> MatchedProcess {
        let ticks = sys::ticks_per_second();
        self.view.now = (sys::boot_time().as_secs_f64() * ticks as f64) as u64;
        find(processes, &self.view)
    }

    /// Finds the users of the device among these processes, and notes them.
    fn note(&mut self, processes: &[(Stat, Evidence)]) -> MatchedProcess {
        let found = self.find(processes);
        if !found.users.is_empty() {
            // Unreadable programs that begin later may have nothing to do with this device.
            self.view.used_since.get_or_insert(self.view.now);
            self.view.seen.extend(found.users.iter().map(key));
        }
        found
    }

    /// Notes the descendants of the programs that use the device: each uses it until it
    /// exits, also when its parents have exited.
    pub fn note_descendants(&mut self) {
        // The process id of one that has exited may belong to an unrelated process by now.
        self.view
            .seen
            .retain(|(pid, start)| Stat::runs(*pid, *start));
        let seen = self.view.seen.iter().map(|(pid, _)| *pid);
        let mut todo: Vec<i32> = seen.flat_map(children).collect();
        while let Some(pid) = todo.pop() {
            let Some(stat) = Stat::read(pid) else {
                continue;
            };
            if !counts(&stat) || procfs::is_getgpu_or_cudawrap(pid, &stat.comm) {
                continue;
            }
            if is_background(&stat, &self.args.background) || self.view.seen.insert(key(&stat)) {
                todo.extend(children(pid));
            }
        }
    }

    /// The callers of the other reservations of this user on the shared device.
    fn other_callers(&self) -> HashSet<(i32, u64)> {
        let own = std::process::id() as i32;
        let sharers = procfs::pids()
            .into_iter()
            .filter(|pid| {
                *pid != own
                    && procfs::comm(*pid).is_some_and(|name| name == HOLDER_NAME)
                    && procfs::euid(*pid) == Some(self.uid)
            })
            .filter(|pid| self.lock.is_shared_with(*pid))
            .filter_map(HolderProcess::of);
        sharers
            .map(|holder| (holder.args.caller.pid, holder.args.caller.start))
            .filter(|caller| *caller != self.view.caller)
            .collect()
    }

    /// Whether a process, wherever it is, can be a program of the reservation.
    fn may_matter(&self, pid: i32) -> bool {
        !self.tree
            || procfs::may_be_of(pid, self.uid)
            || self.view.seen.iter().any(|(seen, _)| *seen == pid)
    }

    /// All processes of the uid; descendants of the caller, and of those that name the
    /// device, under whatever uid.
    fn everything(&self) -> Vec<(Stat, Evidence)> {
        let mut known = HashSet::new();
        let mut all = self.below(vec![self.view.caller.0], &mut known, ArgumentUse::Counts);
        // Without the kernel's list of children only a look at everything finds
        // descendants.
        let rest: Vec<i32> = procfs::pids()
            .into_iter()
            .filter(|pid| self.may_matter(*pid) && known.insert(*pid))
            .collect();
        let rest_counts = if self.tree {
            ArgumentUse::Ignored
        } else {
            ArgumentUse::Counts
        };
        let first = all.len();
        all.extend(
            rest.into_iter()
                .filter_map(Stat::read)
                .map(|stat| self.with_evidence(stat, rest_counts)),
        );
        let naming = all[first..].iter().filter(|(stat, evidence)| {
            evidence.environment == EnvMatch::Device || self.view.seen.contains(&key(stat))
        });
        let children = naming.flat_map(|(stat, _)| children(stat.pid)).collect();
        all.extend(self.below(children, &mut known, ArgumentUse::Ignored));
        all
    }

    /// These processes and their descendants, without the `known`, which they become.
    /// Arguments count below the caller only.
    fn below(
        &self,
        mut todo: Vec<i32>,
        known: &mut HashSet<i32>,
        arguments: ArgumentUse,
    ) -> Vec<(Stat, Evidence)> {
        let (mut found, mut walked) = (Vec::new(), HashSet::new());
        while let Some(pid) = todo.pop() {
            if !walked.insert(pid) {
                continue;
            }
            if known.insert(pid) {
                found.extend(Stat::read(pid).map(|stat| self.with_evidence(stat, arguments)));
            }
            todo.extend(children(pid));
        }
        found
    }

    fn with_evidence(&self, stat: Stat, arguments: ArgumentUse) -> (Stat, Evidence) {
        let evidence = self.evidence(&stat, arguments);
        (stat, evidence)
    }

    fn evidence(&self, stat: &Stat, arguments: ArgumentUse) -> Evidence {
        // Holders have an empty environment, which is read again in vain, and UUIDs in their
        // arguments.
        let never = stat.kernel || !stat.alive() || stat.comm == HOLDER_NAME;
        if never || procfs::euid(stat.pid) != Some(self.uid) {
            return Evidence::default();
        }
        let block = match process_memory::environ(stat.pid) {
            Secret::Bytes(block) => Some(block),
            Secret::Denied => None,
            Secret::Gone => return Evidence::default(),
        };
        let environment = block.as_ref().map_or(EnvMatch::Unreadable, |block| {
            process_memory::value(block, "CUDA_VISIBLE_DEVICES")
                .map_or(EnvMatch::Nothing, |value| {
                    match_value(&String::from_utf8_lossy(value), self.args)
                })
        });
        let argument = arguments == ArgumentUse::Counts
            && self.is_named_in(&process_memory::cmdline(stat.pid));
        let told = block
            .as_ref()
            .is_some_and(|block| is_told(block, self.args));
        let chooses = (argument || told || environment != EnvMatch::Nothing)
            && procfs::is_getgpu_or_cudawrap(stat.pid, &stat.comm);
        if chooses && ignores_grant(stat.pid, &block.unwrap_or_default()) {
            return Evidence::default();
        }
        Evidence {
            own_uid: true,
            environment,
            argument,
            chooses,
            told,
            background: is_background(stat, &self.args.background),
        }
    }

    fn is_named_in(&self, words: &[u8]) -> bool {
        let words = words.to_ascii_lowercase();
        self.args.devices.iter().any(|uuid| {
            let uuid = uuid.as_str().to_ascii_lowercase().into_bytes();
            words.windows(uuid.len()).any(|part| part == uuid)
        })
    }
}

/// Whether the caller was started with a reserved device, so that older processes may
/// have been granted it, too.
fn caller_names(args: &HolderArgs) -> bool {
    let Secret::Bytes(block) = process_memory::environ(args.caller.pid) else {
        return false;
    };
    let value = process_memory::value(&block, "CUDA_VISIBLE_DEVICES");
    value.is_some_and(|value| {
        match_value(&String::from_utf8_lossy(value), args) != EnvMatch::Nothing
    })
}

/// Whether getgpu or cudawrap was told not to consider CUDA_VISIBLE_DEVICES, by its
/// arguments or by a variable of its environment `block`.
fn ignores_grant(pid: i32, block: &[u8]) -> bool {
    let words = process_memory::cmdline(pid);
    let mut words = words.split(|byte| *byte == 0);
    words.any(|word| word == b"--ignore-grant")
        || process_memory::value(block, "CUDAWRAP_IGNORE_GRANT").is_some_and(|value| value == b"1")
}

/// The children of all threads of a process (CONFIG_PROC_CHILDREN).
fn children(pid: i32) -> Vec<i32> {
    let threads = file::numbers(&format!("/proc/{pid}/task")).into_iter();
    let texts = threads
        .filter_map(|thread| file::whole(&format!("/proc/{pid}/task/{thread}/children")).ok());
    texts
        .flat_map(|text: Vec<u8>| -> Vec<i32> {
            String::from_utf8_lossy(&text)
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect()
        })
        .collect()
}

#[cfg(test)]
#[path = "proc_scanner_tests.rs"]
mod tests;
