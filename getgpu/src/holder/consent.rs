//! Whether the holder gives its reservation to its caller's next getgpu. The holder
//! judges at the moment it is asked, since it alone reads the environments of other
//! processes; in doubt it refuses, and the caller chooses another device.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use getgpu_common::lock::holder_args::HolderArgs;
use getgpu_common::lock::ownership_proof::HOLDER_NAME;
use getgpu_common::procfs::{Stat, ancestry, file};
use getgpu_common::sys;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

use super::exit_watch::runs;
use super::process_match::Seen;

/// What a getgpu asks with. Its default action is to be ignored, so a holder of an older
/// version goes on as it was.
pub const QUESTION: Signal = Signal::SIGURG;

/// The questions that arrive at this process. No descriptor: a holder has none but the
/// lock.
pub struct Questions(());

impl Questions {
    /// Receives questions from now on; they wait until they are read. `None`: signals
    /// cannot be blocked, and all are left unanswered.
    pub fn receive() -> Option<Self> {
        let mut signals = SigSet::empty();
        signals.add(QUESTION);
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), None).ok()?;
        Some(Self(()))
    }

    /// The pid of the next process that asks, waited for at most `limit`.
    pub fn next(&self, limit: Duration) -> Option<i32> {
        sys::wait_for_signal(QUESTION as i32, limit).filter(|pid| *pid > 0)
    }
}

/// What was read when somebody asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The process that asks is a descendant of the caller that the reservation was made
    /// for.
    pub same_caller: bool,
    /// Threads of the caller.
    pub threads: usize,
    /// A fork of the caller lives that the reservation was made in, and the process that
    /// asks is not below it.
    pub made_elsewhere: bool,
    /// Another program has a lease or a reservation on the units.
    pub held: bool,
    /// A process that names the device, wherever it is.
    pub named: bool,
    /// Below the caller, or forks of it that were left behind: what each process is,
    /// apart from the one that asks, its ancestors, its children and its pipeline.
    pub others: Vec<Other>,
}

/// A process below the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// It names the device, by its environment or an argument.
    pub names: bool,
    /// It began after the reservation.
    pub younger: bool,
    /// It has not executed a program since it was forked: what it will run is not known
    /// yet.
    pub forked: bool,
    /// Its environment may not be read.
    pub hidden: bool,
}

/// Whether the reservation may be given away.
pub fn agrees(evidence: &Evidence) -> bool {
    let may_name = |other: &Other| other.names || (other.younger && (other.forked || other.hidden));
    evidence.same_caller
        && evidence.threads == 1
        && !evidence.made_elsewhere
        && !evidence.held
        && !evidence.named
        && !evidence.others.iter().any(may_name)
}

/// Reads the evidence, apart from what the lock tells and whether a process names the
/// device. `everything`: all processes of the user, and the caller's descendants.
pub fn read(line: &HolderArgs, asker: i32, everything: &[(Stat, Seen)]) -> Evidence {
    let caller = (line.caller.pid, line.caller.start);
    let Some(lineage) = Lineage::of(asker, caller) else {
        return Evidence::default();
    };
    let below = descendants(line.caller.pid, everything);
    let (below, elsewhere): (Vec<_>, Vec<_>) = everything
        .iter()
        .partition(|(stat, _)| below.contains(&stat.pid));
    let lives = |(pid, start): &(i32, u64)| runs(*pid, *start) && !lineage.contains(*pid);
    let mut others = others_below(&below, &lineage, line.since);
    others.extend(strays(&elsewhere, &lineage, line.since));
    Evidence {
        same_caller: lineage.caller().is_some(),
        threads: file::numbers(&format!("/proc/{}/task", line.caller.pid)).len(),
        made_elsewhere: line.forks.iter().any(lives),
        held: false,
        named: false,
        others,
    }
}

/// The process that asks, and its ancestors.
struct Lineage {
    asker: i32,
    ancestors: Vec<Stat>,
    /// The pid and the start of the caller that the reservation was made for.
    caller: (i32, u64),
}

impl Lineage {
    /// None if the process has exited.
    fn of(asker: i32, caller: (i32, u64)) -> Option<Self> {
        Stat::read(asker).filter(Stat::alive)?;
        Some(Self {
            asker,
            ancestors: ancestry::ancestors(asker, 64),
            caller,
        })
    }

    fn contains(&self, pid: i32) -> bool {
        pid == self.asker || self.ancestors.iter().any(|stat| stat.pid == pid)
    }

    /// The caller, if the one that asks descends from it.
    fn caller(&self) -> Option<&Stat> {
        let is_caller = |stat: &&Stat| (stat.pid, stat.start) == self.caller;
        self.ancestors.iter().find(is_caller)
    }

    /// The one that asks, and the forks of the caller above it.
    fn below_caller(&self) -> impl Iterator<Item = i32> {
        let above = self.ancestors.iter();
        let forks = above.take_while(|stat| (stat.pid, stat.start) != self.caller);
        std::iter::once(self.asker).chain(forks.map(|stat| stat.pid))
    }
}

/// The processes below the caller, apart from the one that asks, its lineage, its child
/// and its pipeline.
fn others_below(below: &[&(Stat, Seen)], lineage: &Lineage, since: u64) -> Vec<Other> {
    let started_with = pipeline(lineage.below_caller(), below);
    let others = below.iter().filter(|(stat, _)| {
        // The one that asks has NVML asked by a child of its own.
        let of_asker = lineage.contains(stat.pid) || stat.ppid == lineage.asker;
        stat.alive()
            && !stat.kernel
            && !of_asker
            && !started_with.contains(&stat.pid)
            && stat.comm != HOLDER_NAME
    });
    let other = |(stat, seen): &&(Stat, Seen)| Other {
        names: seen.has_value || seen.has_part || seen.has_argument,
        younger: stat.start >= since,
        forked: stat.forked,
        hidden: seen.denied,
    };
    others.map(other).collect()
}

/// A fork of the caller that outlived the fork above it is no descendant any more, and
/// may use what it was told.
fn strays(elsewhere: &[&(Stat, Seen)], lineage: &Lineage, since: u64) -> Vec<Other> {
    let caller_arguments = lineage.caller().map_or(0, |stat| stat.arg_start);
    let strays = elsewhere.iter().filter(|(stat, _)| {
        let of_caller = caller_arguments != 0 && stat.arg_start == caller_arguments;
        stat.forked && stat.alive() && of_caller && !lineage.contains(stat.pid)
    });
    let stray = |(stat, _): &&(Stat, Seen)| Other {
        younger: stat.start >= since,
        forked: true,
        ..Other::default()
    };
    strays.map(stray).collect()
}

/// A process and its descendants.
fn descendants(pid: i32, everything: &[(Stat, Seen)]) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (stat, _) in everything {
        children.entry(stat.ppid).or_default().push(stat.pid);
    }
    let (mut found, mut todo) = (HashSet::new(), vec![pid]);
    while let Some(pid) = todo.pop() {
        if found.insert(pid) {
            todo.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// The processes that a shell starts together with `members`: they read what a member
/// writes, or write what one reads, by a pipe.
fn pipeline(members: impl Iterator<Item = i32>, below: &[&(Stat, Seen)]) -> HashSet<i32> {
    let (mut found, mut todo) = (HashSet::new(), members.collect::<Vec<_>>());
    let forked: Vec<(i32, Pipes)> = below
        .iter()
        .filter(|(stat, _)| stat.forked)
        .map(|(stat, _)| (stat.pid, Pipes::of_all(stat.pid)))
        .collect();
    while let Some(member) = todo.pop() {
        let ends = Pipes::of_streams(member);
        for (pid, pipes) in &forked {
            let meets =
                !ends.written.is_disjoint(&pipes.read) || !ends.read.is_disjoint(&pipes.written);
            if meets && found.insert(*pid) {
                todo.push(*pid);
            }
        }
    }
    found
}

/// The pipes that a process has open.
#[derive(Default)]
struct Pipes {
    read: HashSet<String>,
    written: HashSet<String>,
}

impl Pipes {
    /// Of standard input and output: what a command of a pipeline is connected by.
    fn of_streams(pid: i32) -> Self {
        Self::of(pid, &[0, 1])
    }

    /// Of all descriptors, since a shell's fork has not put them in their places yet.
    fn of_all(pid: i32) -> Self {
        Self::of(pid, &file::numbers(&format!("/proc/{pid}/fd")))
    }

    fn of(pid: i32, numbers: &[i32]) -> Self {
        let mut pipes = Self::default();
        for number in numbers {
            let path = format!("/proc/{pid}/fd/{number}");
            let Ok(target) = std::fs::read_link(&path) else {
                continue;
            };
            let Some(pipe) = target.to_str().filter(|target| target.starts_with("pipe:")) else {
                continue;
            };
            // The link's own mode tells how the descriptor was opened (proc_pid_fd(5)).
            let mode = std::fs::symlink_metadata(&path).map_or(0, |data| data.permissions().mode());
            if mode & 0o400 != 0 {
                pipes.read.insert(pipe.to_owned());
            }
            if mode & 0o200 != 0 {
                pipes.written.insert(pipe.to_owned());
            }
        }
        pipes
    }
}

#[cfg(test)]
#[path = "consent_tests.rs"]
mod tests;
