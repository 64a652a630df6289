//! Which processes use a reserved device, and which only keep its reservation: pure, over
//! what was read of /proc. A process uses it if its CUDA_VISIBLE_DEVICES names the device,
//! or if it descends from such a process.

use std::collections::{HashMap, HashSet};

use getgpu_linux::{Stat, sys};
use getgpu_lock::{HOLDER_NAME, HolderArgs, Until};
use getgpu_model::{Selector, Uuid};

/// Names of processes that never count.
const NEVER: [&str; 2] = ["create-cudawrap", HOLDER_NAME];

/// A process, by its id and its start.
pub type ProcessKey = (i32, u64);

pub fn key(stat: &Stat) -> ProcessKey {
    (stat.pid, stat.start)
}

/// What the environment of a process says of the reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnvMatch {
    #[default]
    Nothing,
    /// CUDA_VISIBLE_DEVICES names a reserved device.
    Device,
    /// CUDA_VISIBLE_DEVICES is the text that getgpu printed, which holds no UUID.
    PrintedText,
    /// It may not be read.
    Unreadable,
}

/// What was read of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// It runs under the reservation's uid.
    pub own_uid: bool,
    pub environment: EnvMatch,
    /// An argument holds the UUID of a reserved device.
    pub argument: bool,
    /// It is getgpu, or cudawrap before its exec: it passes a value on, and is no use of
    /// the device.
    pub chooses: bool,
    /// A variable besides CUDA_VISIBLE_DEVICES holds the UUID of a reserved device.
    pub told: bool,
    /// It is an agent or a server that never uses CUDA itself.
    pub background: bool,
}

/// Whether a variable that is not CUDA_VISIBLE_DEVICES tells a process of the reservation: its
/// value holds the UUID of a device, as it was printed, and not the whole larger grant.
pub fn is_told(environment: &[u8], args: &HolderArgs) -> bool {
    let has = |text: &[u8], uuid: &Uuid| sys::contains_bytes(text, uuid.as_str().as_bytes());
    // Few environments hold a UUID at all, and those of many processes are looked at.
    if !args.devices.iter().any(|uuid| has(environment, uuid)) {
        return false;
    }
    environment.split(|byte| *byte == 0).any(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=');
        let (name, value) = entry.split_at(at.unwrap_or(entry.len()));
        let before = args.told_before.iter().any(|told| told.as_bytes() == name);
        let is_grant = !args.grant.is_empty() && args.grant.iter().all(|uuid| has(value, uuid));
        name != b"CUDA_VISIBLE_DEVICES"
            && !before
            && !is_grant
            && args.devices.iter().any(|uuid| has(value, uuid))
    })
}

/// Compares the value of a process's CUDA_VISIBLE_DEVICES with a reservation. A value
/// that names every device of the larger grant is that grant.
pub fn match_value(value: &str, args: &HolderArgs) -> EnvMatch {
    let entries: Vec<Selector> = value.split(',').filter_map(Selector::parse).collect();
    let names = |device: &Uuid| entries.iter().any(|entry| entry.names(device));
    let is_grant = !args.grant.is_empty() && args.grant.iter().all(names);
    if !is_grant && args.devices.iter().any(names) {
        EnvMatch::Device
    } else if value == args.value && !args.devices.iter().any(names) {
        EnvMatch::PrintedText
    } else {
        EnvMatch::Nothing
    }
}

/// The point of view from which a holder looks at processes.
#[derive(Clone, Debug, Default)]
pub struct ProcessView {
    pub caller: ProcessKey,
    /// The address of the caller's arguments before anything was printed.
    pub caller_arguments: u64,
    /// Start of the getgpu that made the reservation, in clock ticks.
    pub since: u64,
    /// Processes of the first look, with the address of their arguments; filled where the
    /// device had been granted before.
    pub granted: HashMap<ProcessKey, u64>,
    /// Processes that used the device at an earlier look: they use it until they exit.
    pub seen: HashSet<ProcessKey>,
    /// The callers of the other reservations on a shared device.
    pub other_callers: HashSet<ProcessKey>,
    /// When the first program was found, in clock ticks.
    pub used_since: Option<u64>,
    /// How many ticks an unreadable process that began after that keeps the reservation.
    pub unreadable_limit: u64,
    /// For how many ticks after its start an unreadable process may be one that changes its user,
    /// and is readable as soon as it has executed its program.
    pub settling: u64,
    /// The time, in clock ticks.
    pub now: u64,
    /// Once the process has exited that the device was held for: the one that adopts what it has
    /// left behind. The printed text means this reservation wherever a later program has it then,
    /// since nothing is below that process any more.
    pub adopter: Option<i32>,
    /// The device had been granted before: then others name it too, and what was left behind is
    /// known by its adopter alone.
    pub was_granted: bool,
}

/// What a look at the processes found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchedProcess {
    /// The processes that use the device.
    pub users: Vec<Stat>,
    /// Processes that keep the reservation without using the device.
    pub keepers: Vec<Stat>,
}

impl MatchedProcess {
    pub fn join(&mut self, other: Self) {
        self.users.extend(other.users);
        self.keepers.extend(other.keepers);
    }

    /// The oldest process that keeps the reservation, if any does.
    pub fn oldest(&self) -> Option<&Stat> {
        let all = if self.users.is_empty() {
            &self.keepers
        } else {
            &self.users
        };
        all.iter().min_by_key(|stat| stat.start)
    }
}

impl ProcessView {
    pub fn of(args: &HolderArgs, ticks_per_second: u64) -> Self {
        let wait = match &args.until {
            Until::Programs { wait } => wait.as_secs(),
            Until::Over(..) | Until::Released => 0,
        };
        Self {
            caller: (args.caller.pid, args.caller.start),
            since: args.since,
            unreadable_limit: wait * ticks_per_second,
            settling: ticks_per_second / 2,
            ..Self::default()
        }
    }

    /// Whether this program named the device before the reservation was made.
    fn had_before(&self, stat: &Stat) -> bool {
        self.granted.get(&key(stat)) == Some(&stat.arg_start)
    }

    fn is_caller(&self, stat: &Stat) -> bool {
        key(stat) == self.caller
    }

    /// Whether the program began after the reservation was made. The caller may have
    /// executed its program in its own place.
    fn began_later(&self, stat: &Stat) -> bool {
        if self.is_caller(stat) {
            return stat.arg_start != self.caller_arguments;
        }
        stat.start >= self.since
    }

    /// Whether an unreadable process below the caller counts as a user. The fork of a root
    /// daemon that has changed its uid is unreadable for a moment, too.
    fn is_unreadable_user(&self, stat: &Stat, evidence: &Evidence) -> bool {
        evidence.environment == EnvMatch::Unreadable
            && !stat.forked
            && !evidence.chooses
            && self.began_later(stat)
    }

    /// Whether an unreadable process may be something else than the program: it began
    /// when the device was in use.
    fn is_latecomer(&self, stat: &Stat) -> bool {
        self.used_since.is_some_and(|since| stat.start > since) && !self.seen.contains(&key(stat))
    }

    fn is_in_time(&self, stat: &Stat) -> bool {
        self.now < stat.start + self.unreadable_limit
    }
}

/// Finds the users of the device, and whether anything else keeps its reservation.
pub fn find(processes: &[(Stat, Evidence)], view: &ProcessView) -> MatchedProcess {
    let tree = Tree::of(processes);
    let classifier = Classifier {
        below_caller: tree.descendants(|stat| view.is_caller(stat)),
        below_adopted: tree
            .descendants(|stat| view.adopter == Some(stat.ppid) && stat.start >= view.since),
        below_others: tree.descendants(|stat| view.other_callers.contains(&key(stat))),
        tree: &tree,
        view,
    };
    let roles: Vec<ProcessRole> = (0..processes.len())
        .map(|place| classifier.role(place))
        .collect();
    let roots = (0..processes.len()).filter(|place| roles[*place] == ProcessRole::Uses);
    let mut users: Vec<usize> = tree.below(roots.collect()).into_iter().collect();
    users.sort_unstable();
    let users = users.into_iter().map(|place| &processes[place]);
    let users =
        users.filter(|(stat, evidence)| counts(stat) && !evidence.chooses && !evidence.background);
    let keepers = processes.iter().zip(&roles);
    let keepers = keepers.filter(|(_, role)| **role == ProcessRole::Keeps);
    MatchedProcess {
        users: users.map(|(stat, _)| stat.clone()).collect(),
        keepers: keepers.map(|((stat, _), _)| stat.clone()).collect(),
    }
}

/// What a process does with the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessRole {
    Nothing,
    /// It keeps the reservation while it lives, and is no use of it.
    Keeps,
    /// It uses the device, and so do its descendants.
    Uses,
}

/// One look at all processes.
struct Classifier<'a> {
    tree: &'a Tree<'a>,
    view: &'a ProcessView,
    below_caller: HashSet<usize>,
    /// What was left behind, and what is below it.
    below_adopted: HashSet<usize>,
    /// The callers of other reservations on a shared device, and what is below them.
    below_others: HashSet<usize>,
}

impl Classifier<'_> {
    fn role(&self, place: usize) -> ProcessRole {
        let (stat, evidence) = &self.tree.processes[place];
        let view = self.view;
        let names = evidence.own_uid && self.names(place) && !view.had_before(stat);
        if !counts(stat) || evidence.background || self.belongs_to_other(place) {
            return ProcessRole::Nothing;
        }
        if evidence.chooses {
            // A new call that waits for this device must not keep it from ending.
            let is_left = view.adopter.is_none_or(|adopter| stat.ppid == adopter);
            return if names && is_left {
                ProcessRole::Keeps
            } else {
                ProcessRole::Nothing
            };
        }
        if names || view.seen.contains(&key(stat)) {
            return ProcessRole::Uses;
        }
        if evidence.told && view.began_later(stat) {
            return ProcessRole::Keeps;
        }
        if !evidence.own_uid || !self.below_caller.contains(&place) {
            return ProcessRole::Nothing;
        }
        let unreadable = view.is_unreadable_user(stat, evidence);
        let settled = view.now >= stat.start + view.settling;
        if unreadable && settled && !view.is_latecomer(stat) {
            return ProcessRole::Uses;
        }
        let argument = evidence.argument && view.began_later(stat);
        if argument || (unreadable && (!settled || view.is_in_time(stat))) {
            return ProcessRole::Keeps;
        }
        ProcessRole::Nothing
    }

    /// Whether the environment names the device. An index means this reservation in a program that
    /// began later, below the caller, or anywhere once the process of a hold has exited.
    fn names(&self, place: usize) -> bool {
        let (stat, evidence) = &self.tree.processes[place];
        let is_shared_grant = self.view.was_granted && self.view.adopter.is_some();
        if is_shared_grant && !self.below_adopted.contains(&place) {
            return false;
        }
        match evidence.environment {
            EnvMatch::Device => true,
            EnvMatch::PrintedText => {
                let is_near = self.view.adopter.is_some() || self.below_caller.contains(&place);
                self.view.began_later(stat) && is_near
            }
            EnvMatch::Nothing | EnvMatch::Unreadable => false,
        }
    }

    /// On a shared device a process that is below the caller of another reservation, and
    /// not below this one's, belongs to that one alone. Below both it counts for both: it
    /// may have its device from either.
    fn belongs_to_other(&self, place: usize) -> bool {
        self.below_others.contains(&place) && !self.below_caller.contains(&place)
    }
}

/// Whether a process can be one that uses the device.
pub fn counts(stat: &Stat) -> bool {
    stat.alive() && !stat.kernel && !NEVER.contains(&stat.comm.as_str())
}

/// The processes by their parents.
struct Tree<'a> {
    processes: &'a [(Stat, Evidence)],
    children: HashMap<i32, Vec<usize>>,
}

impl<'a> Tree<'a> {
    fn of(processes: &'a [(Stat, Evidence)]) -> Self {
        let mut children = HashMap::<i32, Vec<usize>>::new();
        for (place, (stat, _)) in processes.iter().enumerate() {
            children.entry(stat.ppid).or_default().push(place);
        }
        Self {
            processes,
            children,
        }
    }

    /// The processes that `test` finds, and their descendants.
    fn descendants(&self, test: impl Fn(&Stat) -> bool) -> HashSet<usize> {
        let places = self.processes.iter().enumerate();
        let roots = places.filter(|(_, (stat, _))| test(stat));
        self.below(roots.map(|(place, _)| place).collect())
    }

    fn below(&self, mut todo: Vec<usize>) -> HashSet<usize> {
        let mut reached = HashSet::new();
        while let Some(place) = todo.pop() {
            if reached.insert(place) {
                let pid = self.processes[place].0.pid;
                todo.extend(self.children.get(&pid).into_iter().flatten().copied());
            }
        }
        reached
    }
}

#[cfg(test)]
#[path = "process_match_tests.rs"]
mod tests;
