//! The cells of the matrix of drivers, kinds of GPUs, privileges, namespaces and
//! surroundings, and which of them an ordinary run tries: every pair of two values.

use std::collections::BTreeSet;

use harness::{DRIVERS, full, is_from};

/// What NVML says of the memory of a GPU on which nothing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Next to nothing is in use.
    Own,
    /// Nothing is said: it is the host's.
    None,
    /// 20,000 MiB are in use, by the system: it is a NUMA node of the host.
    NumaNode,
}

/// Three devices that one call may choose from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) gpus: &'static str,
    pub(crate) memory: Memory,
    /// The first driver for such GPUs.
    from: &'static str,
}

#[rustfmt::skip]
const KINDS: [Kind; 6] = [
    Kind { name: "MIG", memory: Memory::Own, from: "450", gpus:
        "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '3x1g.5gb'\n" },
    Kind { name: "whole GPUs", memory: Memory::Own, from: "450", gpus:
        "[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 2\n[[gpu]]\nmodel = 'T4'\n" },
    Kind { name: "MIG beside whole GPUs", memory: Memory::Own, from: "450", gpus:
        "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\n\
         device = [{ gi = 2, profile = '3g.20gb', index = 0 }, { gi = 9, profile = '1g.5gb', index = 4 }, \
         { gi = 10, profile = '1g.5gb', index = 5 }]\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n" },
    Kind { name: "integrated GPUs", memory: Memory::None, from: "580", gpus:
        "[[gpu]]\nmodel = 'GB10'\nintegrated = true\ncount = 3\n" },
    Kind { name: "GPUs that are NUMA nodes", memory: Memory::NumaNode, from: "535", gpus:
        "[[gpu]]\nmodel = 'GH200-96GB'\nidle_mib = 20000\nnuma_node = 1\ncount = 3\n" },
    Kind { name: "MIG on a NUMA node", memory: Memory::NumaNode, from: "535", gpus:
        "[[gpu]]\nmodel = 'GH200-96GB'\nmig = true\nnuma_node = 1\n\
         device = [{ gi = 3, profile = '2g.20gb', idle_mib = 20000 }, { gi = 5, profile = '2g.20gb', idle_mib = 20000 }, \
         { gi = 9, profile = '2g.20gb', idle_mib = 20000 }]\n" },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    Root,
    User,
    /// Root of a user namespace, an ordinary user outside.
    NamespaceRoot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    Host,
    /// A pid namespace, to which NVML shows the processes outside.
    Pid,
    /// One to which NVML shows no process outside, but the memory of all.
    BlindPid,
    /// One to which NVML shows the processes outside without their pids.
    NamelessPid,
}

/// What must not change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surroundings {
    Plain,
    /// GPUs in MIG mode tell their processes and memory to root alone (nvml.h).
    ClosedParents,
    /// The caller wants NVML to list MPS locality domains.
    MpsDomains,
}

const PRIVILEGES: [Privilege; 3] = [Privilege::Root, Privilege::User, Privilege::NamespaceRoot];
#[rustfmt::skip]
const NAMESPACES: [Namespace; 4] = [
    Namespace::Host, Namespace::Pid, Namespace::BlindPid, Namespace::NamelessPid,
];
#[rustfmt::skip]
const SURROUNDINGS: [Surroundings; 3] = [
    Surroundings::Plain, Surroundings::ClosedParents, Surroundings::MpsDomains,
];

/// A cell: the places of its values.
type Cell = [usize; 5];

/// What is tried with one driver on one kind.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) driver: usize,
    pub(crate) kind: Kind,
    pub(crate) cells: Vec<(Privilege, Namespace, Surroundings)>,
}

/// Every cell with the full size, else so many that all pairs are among them.
pub(crate) fn nodes() -> Vec<Node> {
    let all = cells();
    let chosen = if full() { all } else { pairwise(&all) };
    let mut nodes: Vec<Node> = Vec::new();
    let mut last = None;
    for [driver, kind, privilege, namespace, surroundings] in chosen {
        if last.replace((driver, kind)) != Some((driver, kind)) {
            nodes.push(Node {
                driver,
                kind: KINDS[kind],
                cells: Vec::new(),
            });
        }
        let cell = (
            PRIVILEGES[privilege],
            NAMESPACES[namespace],
            SURROUNDINGS[surroundings],
        );
        nodes.last_mut().unwrap().cells.push(cell);
    }
    nodes
}

/// All cells, in the order of driver and kind.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (d, driver) in DRIVERS.iter().enumerate() {
        let kinds = (0..KINDS.len()).filter(|kind| is_from(driver, KINDS[*kind].from));
        for (k, p) in kinds.flat_map(|k| (0..PRIVILEGES.len()).map(move |p| (k, p))) {
            for n in 0..NAMESPACES.len() {
                cells.extend((0..SURROUNDINGS.len()).map(|s| [d, k, p, n, s]));
            }
        }
    }
    cells
}

/// A pair of values: two axes, and the place on each.
type Pair = (usize, usize, usize, usize);

fn pairs(cell: Cell) -> impl Iterator<Item = Pair> {
    let axes = (0..cell.len()).flat_map(move |a| (a + 1..cell.len()).map(move |b| (a, b)));
    axes.map(move |(a, b)| (a, cell[a], b, cell[b]))
}

/// Few of these cells, in their order, that have every pair that all of them have: those
/// with the most new pairs first.
fn pairwise(all: &[Cell]) -> Vec<Cell> {
    let mut covered: BTreeSet<Pair> = BTreeSet::new();
    let mut chosen: BTreeSet<Cell> = BTreeSet::new();
    for enough in (1..=10).rev() {
        for cell in all {
            if pairs(*cell).filter(|pair| !covered.contains(pair)).count() >= enough {
                covered.extend(pairs(*cell));
                chosen.insert(*cell);
            }
        }
    }
    chosen.into_iter().collect()
}
