//! Looking at /proc for programs that name the device: at the caller and its descendants,
//! which is quick, or at all processes of the uid, which is kept to one per cent of a
//! processor. Only here are the environments of strangers' processes read.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use getgpu_common::lease_log;
use getgpu_common::lock::holder_args::{self, HolderArgs};
use getgpu_common::procfs::process_memory::{self, Secret};
use getgpu_common::procfs::{self, Stat, file};
use getgpu_common::sys;

use super::process_match::{Seen, View, naming};
use crate::idle;

/// Looks for the programs of one reservation.
pub struct ProcScanner {
    uid: u32,
    value: Vec<u8>,
    uuids: Vec<Vec<u8>>,
    view: View,
    /// Whether the kernel tells the children of a process (CONFIG_PROC_CHILDREN); else
    /// only a look at everything finds them.
    tree: bool,
    next_full: Instant,
}

impl ProcScanner {
    /// Remembers, where the value was granted before, who is there already.
    pub fn new(line: &HolderArgs) -> Self {
        let uid = nix::unistd::geteuid().as_raw();
        let granted = (line.granted || caller_has(line)).then(|| {
            let own = procfs::pids()
                .into_iter()
                .filter(|pid| procfs::euid(*pid) == Some(uid));
            own.filter_map(Stat::read)
                .map(|stat| (stat.pid, (stat.start, stat.arg_start)))
                .collect::<HashMap<_, _>>()
        });
        Self {
            uid,
            value: line.value.clone().into_bytes(),
            uuids: line
                .devices
                .iter()
                .map(|uuid| uuid.as_str().as_bytes().to_vec())
                .collect(),
            view: View {
                caller: (line.caller.pid, line.caller.start),
                since: line.since,
                granted,
            },
            tree: Path::new("/proc/thread-self/children").exists(),
            next_full: Instant::now(),
        }
    }

    /// Of the caller and its descendants, those that name the device.
    pub fn quick(&self) -> Vec<Stat> {
        let below = self.below(vec![self.view.caller.0], &mut HashSet::new(), true);
        naming(&below, &self.view)
    }

    /// Of all processes of the uid, and their descendants under whatever uid, those that
    /// name the device.
    pub fn full(&mut self) -> Vec<Stat> {
        let began = sys::processor_time();
        let found = self.naming(&self.everything());
        self.next_full = Instant::now() + (sys::processor_time().saturating_sub(began)) * 100;
        found
    }

    /// Those of `processes` that name the device.
    pub fn naming(&self, processes: &[(Stat, Seen)]) -> Vec<Stat> {
        naming(processes, &self.view)
    }

    /// All processes of the uid; descendants of the caller, and of those that have the
    /// value, under whatever uid.
    pub fn everything(&self) -> Vec<(Stat, Seen)> {
        let mut known = HashSet::new();
        let mut all = self.below(vec![self.view.caller.0], &mut known, true);
        // Without the kernel's list of children only a look at everything finds
        // descendants.
        let ours = |pid: &i32| !self.tree || procfs::may_be_of(*pid, self.uid);
        let rest: Vec<i32> = procfs::pids()
            .into_iter()
            .filter(|pid| ours(pid) && known.insert(*pid))
            .collect();
        let first = all.len();
        all.extend(
            rest.into_iter()
                .filter_map(Stat::read)
                .map(|stat| self.seen(stat, !self.tree)),
        );
        let named = all[first..]
            .iter()
            .filter(|(_, seen)| seen.has_value)
            .map(|(stat, _)| stat.pid);
        let children = named.flat_map(children).collect();
        all.extend(self.below(children, &mut known, false));
        all
    }

    /// All processes if that is due by the one per cent, else the caller's; and what the
    /// look at the caller's took of a processor.
    pub fn look(&mut self) -> (Vec<Stat>, Duration) {
        let began = sys::processor_time();
        let found = self.quick();
        let took = sys::processor_time().saturating_sub(began);
        (
            if found.is_empty() && Instant::now() >= self.next_full {
                self.full()
            } else {
                found
            },
            took,
        )
    }

    /// These processes and their descendants, without the `known`, which they become.
    /// Arguments count below the caller only.
    fn below(
        &self,
        mut todo: Vec<i32>,
        known: &mut HashSet<i32>,
        arguments: bool,
    ) -> Vec<(Stat, Seen)> {
        let (mut found, mut walked) = (Vec::new(), HashSet::new());
        while let Some(pid) = todo.pop() {
            if !walked.insert(pid) {
                continue;
            }
            if known.insert(pid) {
                found.extend(Stat::read(pid).map(|stat| self.seen(stat, arguments)));
            }
            todo.extend(children(pid));
        }
        found
    }

    fn seen(&self, stat: Stat, arguments: bool) -> (Stat, Seen) {
        let seen = self.see(&stat, arguments);
        (stat, seen)
    }

    fn see(&self, stat: &Stat, arguments: bool) -> Seen {
        if stat.kernel || !stat.alive() || procfs::euid(stat.pid) != Some(self.uid) {
            return Seen::default();
        }
        let (value, denied) = match process_memory::environ(stat.pid) {
            Secret::Bytes(block) => (
                process_memory::value(&block, "CUDA_VISIBLE_DEVICES").map(<[u8]>::to_vec),
                false,
            ),
            Secret::Denied => (None, true),
            Secret::Gone => return Seen::default(),
        };
        let has_value = value.as_deref() == Some(self.value.as_slice());
        let known = |name: &[u8]| self.uuids.iter().any(|uuid| uuid == name);
        let has_part = !has_value
            && self.uuids.len() > 1
            && value.is_some_and(|value| value.split(|b| *b == b',').all(known));
        let has_argument = arguments
            && match process_memory::cmdline(stat.pid) {
                Secret::Bytes(words) => !is_attendant(&words) && self.named_in(&words),
                _ => false,
            };
        Seen {
            own: true,
            has_value,
            has_part,
            has_argument,
            denied,
            wrapper: (has_value || has_part) && is_wrapper(stat.pid),
        }
    }

    fn named_in(&self, words: &[u8]) -> bool {
        self.uuids.iter().any(|uuid| {
            words
                .windows(uuid.len())
                .any(|part| part == uuid.as_slice())
        })
    }
}

/// Whether these are the arguments of a process of ours beside a lease or a reservation:
/// they have UUIDs in them, and below a caller that is a subreaper is where it is.
fn is_attendant(words: &[u8]) -> bool {
    let options = [holder_args::OPTION, lease_log::OPTION, idle::OPTION];
    let second = words.split(|byte| *byte == 0).nth(1);
    second.is_some_and(|word| options.iter().any(|option| word == option.as_bytes()))
}

/// Whether the environment of a process may not be read.
pub fn unreadable(pid: i32) -> bool {
    process_memory::environ(pid) == Secret::Denied
}

/// Whether the caller was started with the value that was printed, so that it is a grant
/// of older processes too.
fn caller_has(line: &HolderArgs) -> bool {
    let Secret::Bytes(block) = process_memory::environ(line.caller.pid) else {
        return false;
    };
    process_memory::value(&block, "CUDA_VISIBLE_DEVICES") == Some(line.value.as_bytes())
}

/// cudawrap under the name of a link, before it becomes its program.
fn is_wrapper(pid: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|exe| exe.file_name().is_some_and(|name| name == "cudawrap"))
}

/// The children of all threads of a process (CONFIG_PROC_CHILDREN).
pub fn children(pid: i32) -> Vec<i32> {
    let threads = file::numbers(&format!("/proc/{pid}/task")).into_iter();
    let texts = threads
        .filter_map(|thread| file::whole(&format!("/proc/{pid}/task/{thread}/children")).ok());
    let pids = |text: Vec<u8>| -> Vec<i32> {
        String::from_utf8_lossy(&text)
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    };
    texts.flat_map(pids).collect()
}
