//! Who may be where: from a tree and the record of its programs, whether two of them were on the
//! same units of a device at one time that do not come from each other. It knows of the commands
//! only what docs/GUARANTEES.md and docs/GUIDE.md promise, and what they name as limits.

use std::collections::{BTreeMap, BTreeSet};

use sim_node::Run;

use crate::storms::tree::{Branch, Filter, Tree, Way};

const UNITS: i64 = 720_720;

/// What the script of a tree has noted; times in ns of CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// The devices of a branch.
    pub(crate) has: BTreeMap<usize, Vec<String>>,
    /// When the reservation of a branch was ended from outside.
    pub(crate) ended: BTreeMap<usize, u64>,
    /// When a process was killed.
    pub(crate) killed: BTreeMap<u32, u64>,
}

impl Notes {
    /// Reads lines `SECONDS has|ended|killed NUMBER [UUID,...]`; `ahead` is by how much their
    /// clock is ahead.
    pub(crate) fn parse(text: &str, ahead: u64) -> Self {
        let mut notes = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [time, what, number, devices @ ..] = &words[..] else {
                continue;
            };
            let (Ok(seconds), Ok(number)) = (time.parse::<f64>(), number.parse::<u32>()) else {
                continue;
            };
            let at = ((seconds * 1e9) as u64).saturating_sub(ahead);
            match *what {
                "killed" => _ = notes.killed.entry(number).or_insert(at),
                "ended" => _ = notes.ended.entry(number as usize).or_insert(at),
                _ => {
                    let devices = devices.iter().flat_map(|list| list.split(','));
                    let devices = devices.map(str::to_owned).collect();
                    notes.has.insert(number as usize, devices);
                }
            }
        }
        notes
    }
}

/// Units of a device, of the branch that has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    branch: usize,
    units: i64,
}

/// What a program stands on: a device of the node's, and a part of that which is divided. Neither,
/// where what was reserved has been ended.
type Stand = (Option<Claim>, Option<Claim>);

/// The judge over one tree.
pub(crate) struct Oracle<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) notes: &'a Notes,
    pub(crate) runs: &'a [Run],
    /// The devices that a filter leaves.
    pub(crate) filtered: &'a dyn Fn(Filter) -> BTreeSet<String>,
}

impl Oracle<'_> {
    /// All that may not be.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = Vec::new();
        for run in self.runs {
            if run
                .end
                .or(self.notes.killed.get(&run.pid).copied())
                .is_none()
            {
                faults.push(format!("ended by itself: {run:?}"));
            }
            let Some(leaf) = self.leaf(run) else {
                faults.push(format!("no program of the tree: {run:?}"));
                continue;
            };
            let chain = self.chain(leaf, &run.uuid);
            if chain.is_empty() {
                faults.push(format!("on a device that it was not given: {run:?}"));
            }
            // Inside, what wants as many devices as its variable names has these, whatever they are.
            for branch in chain.iter().take(1) {
                let filter = self.tree.branches[*branch].wish.filter;
                let other = filter.filter(|filter| !(self.filtered)(*filter).contains(&run.uuid));
                faults.extend(other.map(|filter| format!("{branch} wanted {filter:?}: {run:?}")));
            }
            faults.extend(self.crowd(run));
        }
        faults
    }

    fn leaf(&self, run: &Run) -> Option<usize> {
        let leaf = run.tag.parse().ok()?;
        (leaf < self.tree.branches.len()).then_some(leaf)
    }

    /// What is too much on the device of `run` when it begins, and for its user.
    fn crowd(&self, run: &Run) -> Vec<String> {
        let at = run.start;
        let end = |other: &Run| other.end.or(self.notes.killed.get(&other.pid).copied());
        let active = |other: &&Run| other.start <= at && end(other).is_none_or(|end| end > at);
        let mut outer: BTreeMap<(&str, usize), i64> = BTreeMap::new();
        let mut inner: BTreeMap<(usize, usize), (i64, i64)> = BTreeMap::new();
        let mut of_users: BTreeMap<(&str, usize), i64> = BTreeMap::new();
        let user = |leaf: usize| self.tree.branches[leaf].uid;
        let own = self.leaf(run).map_or(0, user);
        let active: Vec<&Run> = self.runs.iter().filter(active).collect();
        for other in &active {
            let Some(leaf) = self.leaf(other) else {
                continue;
            };
            let (whole, part) = self.stand(leaf, &other.uuid, at);
            let Some(whole) = whole else {
                continue;
            };
            let key = (other.uuid.as_str(), whole.branch);
            if user(leaf) == own {
                of_users.insert(key, whole.units);
            }
            if other.uuid == run.uuid {
                outer.insert(key, whole.units);
                if let Some(part) = part {
                    inner.insert((whole.branch, part.branch), (part.units, whole.units));
                }
            }
        }
        let mut faults = Vec::new();
        let there = || -> Vec<&&Run> { active.iter().filter(|o| o.uuid == run.uuid).collect() };
        if outer.values().sum::<i64>() > UNITS {
            faults.push(format!(
                "{outer:?} on one device: {run:?} among {:?}",
                there()
            ));
        }
        for (whole, _) in inner.keys() {
            let of_it = inner.iter().filter(|((other, _), _)| other == whole);
            let sum: i64 = of_it.clone().map(|(_, (units, _))| units).sum();
            if of_it.clone().any(|(_, (_, all))| sum > *all) {
                let text = format!("{inner:?} inside {whole}: {run:?} among {:?}", there());
                faults.push(text);
            }
        }
        let most = self.tree.most.filter(|_| own != 0);
        if most.is_some_and(|most| of_users.values().sum::<i64>() > most * UNITS) {
            faults.push(format!("{of_users:?} of user {own}: {run:?}"));
        }
        faults
    }

    /// The branches that have this device, from the one that took it from the node.
    fn chain(&self, leaf: usize, uuid: &str) -> Vec<usize> {
        let has = |branch: &usize| {
            let listed = self.notes.has.get(branch);
            let has = listed.is_some_and(|devices| devices.iter().any(|device| device == uuid));
            self.tree.branches[*branch].way.asks() && (has || *branch == leaf)
        };
        let mut chain: Vec<usize> = self.tree.path(leaf).into_iter().filter(has).collect();
        // What libcudawrap.so is loaded into keeps a device that it has in any case.
        let anew = |number: &usize| {
            let branch = &self.tree.branches[*number];
            branch.wish.ignores_grant && branch.way != Way::Auto
        };
        let first = chain.iter().rposition(anew).unwrap_or(0);
        chain.drain(..first);
        chain
    }

    /// What a program stands on at a time.
    fn stand(&self, leaf: usize, uuid: &str, at: u64) -> Stand {
        let chain = self.chain(leaf, uuid);
        let Some(whole) = chain.first() else {
            return (None, None);
        };
        let branch = |number: usize| &self.tree.branches[number];
        let lives = |claim: &Claim| {
            self.notes
                .ended
                .get(&claim.branch)
                .is_none_or(|end| *end > at)
        };
        let units = UNITS / branch(*whole).wish.part;
        let whole = Claim {
            branch: *whole,
            units,
        };
        let around: Vec<&Branch> = chain.iter().map(|number| branch(*number)).collect();
        let mut inside = 1..chain.len();
        let reserves = |number: usize| number != whole.branch && branch(number).way.has_holder();
        let mut all = 0..self.tree.branches.len();
        let is_reserved_inside =
            all.any(|number| reserves(number) && self.tree.path(number).contains(&whole.branch));
        let part = inside.find(|place| {
            let (around, own) = (&around[..*place], around[*place]);
            divides(around, own) && (is_part(around, own) || !is_reserved_inside)
        });
        let part = part.map(|place| Claim {
            branch: chain[place],
            units: units / around[place].wish.part,
        });
        let part = part.filter(lives);
        // What has a part of a reservation that was ended keeps this part on the node; what has
        // none keeps nothing.
        if lives(&whole) {
            (Some(whole), part)
        } else {
            (part, None)
        }
    }
}

/// Whether `inner` asks for less than all that is inside the first of `around`.
fn is_part(around: &[&Branch], inner: &Branch) -> bool {
    let is_less = |outer: &&Branch| inner.wish.count < outer.wish.count;
    inner.wish.part > 1 || around.iter().any(is_less)
}

/// Whether `inner` has its units for itself among all that is inside the first of `around`, where
/// what is between has all of that. A program that is wrapped or loads libcudawrap.so runs on what
/// its variable names, also beside others. All of a lease is joined, also by a program that
/// was started before one that has a part of it, and getgpu prints all of a reservation again.
/// `cudawrap --` leases all of a reservation, also beside programs that were started without it:
/// so this is no claim where there is a reservation inside, which has the same variable.
fn divides(around: &[&Branch], inner: &Branch) -> bool {
    let keeps_what_it_has = matches!(inner.way, Way::Link | Way::Auto);
    let is_reserved = |outer: &&Branch| outer.way.has_holder() && outer.way != Way::Python;
    let is_leased = inner.way == Way::Lease && around.iter().all(is_reserved);
    !keeps_what_it_has && (is_part(around, inner) || is_leased)
}
