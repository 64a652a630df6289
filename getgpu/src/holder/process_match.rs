//! Which processes name a reserved device: pure, over what was read of /proc. By the
//! whole value of CUDA_VISIBLE_DEVICES, by descent from one that has it, or, below the
//! caller, by a part of it or an argument.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;

use getgpu_common::lease_log;
use getgpu_common::lock::ownership_proof::HOLDER_NAME;
use getgpu_common::procfs::Stat;

use crate::idle;

/// Names of processes that never count: our own, which only pass a value on.
const NEVER: [&str; 6] = [
    "getgpu",
    "cudawrap",
    "create-cudawrap",
    HOLDER_NAME,
    text(idle::NAME),
    text(lease_log::NAME),
];

const fn text(name: &'static CStr) -> &'static str {
    match name.to_str() {
        Ok(text) => text,
        Err(_) => panic!("names of processes are ASCII"),
    }
}

/// What was read of one process's secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// It runs under the reservation's uid.
    pub own: bool,
    /// Its CUDA_VISIBLE_DEVICES is the value that was printed.
    pub has_value: bool,
    /// Its CUDA_VISIBLE_DEVICES names some of several devices that were printed: it has
    /// chosen among them.
    pub has_part: bool,
    /// An argument holds the UUID.
    pub has_argument: bool,
    /// Its environment may not be read.
    pub denied: bool,
    /// It is cudawrap before its exec, under the name of a link.
    pub wrapper: bool,
}

/// The reservation's point of view.
#[derive(Clone, Debug)]
pub struct View {
    /// The caller's pid and start.
    pub caller: (i32, u64),
    /// Start of the getgpu that made the reservation.
    pub since: u64,
    /// pid to (start, arg_start) of the first look, where the value was granted before.
    pub granted: Option<HashMap<i32, (u64, u64)>>,
}

impl View {
    /// Whether this process already had the value as part of a grant, and has not exec'ed
    /// since.
    fn had_before(&self, stat: &Stat) -> bool {
        self.granted
            .as_ref()
            .is_some_and(|first| first.get(&stat.pid) == Some(&(stat.start, stat.arg_start)))
    }

    /// Whether a descendant of the caller counts by a part of the value or an argument, or
    /// because it may not be read.
    fn named_below_caller(&self, stat: &Stat, seen: &Seen) -> bool {
        // A root daemon's fork that has changed its uid cannot be read either, for a
        // moment, and is no program yet.
        // The caller is older than the reservation, although it may have begun in the
        // same clock tick; from another user namespace it cannot be read.
        let hidden =
            seen.denied && !stat.forked && stat.start >= self.since && !self.is_caller(stat);
        let part = seen.has_part && !self.is_caller(stat);
        seen.own && (part || seen.has_argument || hidden)
    }

    /// Whether `stat` is the caller, and not another process with its number.
    fn is_caller(&self, stat: &Stat) -> bool {
        (stat.pid, stat.start) == self.caller
    }
}

/// The processes that name the device.
pub fn naming(processes: &[(Stat, Seen)], view: &View) -> Vec<Stat> {
    let named = |stat: &Stat, seen: &Seen| {
        seen.own && seen.has_value && counts(stat, seen) && !view.had_before(stat)
    };
    let by_value = descendants(processes, named);
    let of_caller = descendants(processes, |stat, _| view.is_caller(stat));
    let by_argument = of_caller.into_iter().filter(|place| {
        let (stat, seen) = &processes[*place];
        view.named_below_caller(stat, seen)
    });
    let mut found: Vec<usize> = by_value.into_iter().chain(by_argument).collect();
    found.retain(|place| counts(&processes[*place].0, &processes[*place].1));
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .map(|place| processes[place].0.clone())
        .collect()
}

/// Whether a process can be one that uses the device.
fn counts(stat: &Stat, seen: &Seen) -> bool {
    stat.alive() && !stat.kernel && !seen.wrapper && !NEVER.contains(&stat.comm.as_str())
}

/// The places in `processes` of those that `test` finds, and of their descendants.
fn descendants(processes: &[(Stat, Seen)], test: impl Fn(&Stat, &Seen) -> bool) -> HashSet<usize> {
    let (mut children, mut todo) = (HashMap::<i32, Vec<usize>>::new(), Vec::new());
    for (place, (stat, seen)) in processes.iter().enumerate() {
        children.entry(stat.ppid).or_default().push(place);
        if test(stat, seen) {
            todo.push(place);
        }
    }
    let mut reached = HashSet::new();
    while let Some(place) = todo.pop() {
        if reached.insert(place) {
            let pid = processes[place].0.pid;
            todo.extend(children.get(&pid).into_iter().flatten().copied());
        }
    }
    reached
}

#[cfg(test)]
#[path = "process_match_tests.rs"]
mod tests;
