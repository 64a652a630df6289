//! How GPUs are connected with each other, and which set of them is connected best. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// More sets than this are not looked at one by one: then the set grows by one GPU at a time.
const MOST_SETS: usize = 20_000;

/// How one GPU is connected, as NVML tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLinks {
    /// Active NVLinks to a switch, by which it reaches all others on that.
    pub switched: u32,
    /// Of the GPUs that were asked about, in their order.
    pub others: Vec<PairLinks>,
}

/// How two GPUs are connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairLinks {
    /// Active NVLinks from one to the other.
    pub direct: u32,
    /// nvmlGpuTopologyLevel_t: 0 on one board, 10 below one PCIe switch, 20 below several, 30 at one
    /// host bridge, 40 in one NUMA node, 50 elsewhere; none: not told.
    pub level: Option<u32>,
}

/// How well each two of the GPUs of a node are connected, by NVML index.
#[derive(Clone, Debug, Default)]
pub struct LinkMap(BTreeMap<(u32, u32), u64>);

impl LinkMap {
    /// From what is told of each of these GPUs about all of them.
    pub fn new(gpus: &[u32], told: &[GpuLinks]) -> Self {
        let mut links = BTreeMap::new();
        for (at, gpu) in gpus.iter().enumerate() {
            for (to, other) in gpus.iter().enumerate().filter(|(to, _)| *to != at) {
                let (Some(one), Some(two)) = (told.get(at), told.get(to)) else {
                    continue;
                };
                let pair = one.others.get(to).copied().unwrap_or_default();
                let nvlinks = pair.direct + one.switched.min(two.switched);
                // One NVLink counts for more than any way over PCIe.
                let near = pair.level.map_or(0, |level| 60u32.saturating_sub(level));
                links.insert((*gpu, *other), u64::from(nvlinks) * 1000 + u64::from(near));
            }
        }
        Self(links)
    }

    /// The set of `count` GPUs with all of `first` in it that is connected best; of several the one
    /// that comes first in `from`.
    pub fn best(&self, first: &[u32], from: &[u32], count: usize) -> Vec<u32> {
        let others: Vec<u32> = from
            .iter()
            .copied()
            .filter(|gpu| !first.contains(gpu))
            .collect();
        let wanted = count.saturating_sub(first.len()).min(others.len());
        if sets(others.len(), wanted) > MOST_SETS {
            return self.grown(first, &others, wanted);
        }
        let mut best = (None, Vec::new());
        self.search(&others, wanted, &mut first.to_vec(), &mut best);
        best.1
    }

    fn search(
        &self,
        others: &[u32],
        wanted: usize,
        set: &mut Vec<u32>,
        best: &mut (Option<u64>, Vec<u32>),
    ) {
        if wanted == 0 {
            let worth = self.worth(set);
            if best.0.is_none_or(|known| worth > known) {
                *best = (Some(worth), set.clone());
            }
            return;
        }
        for (at, gpu) in others.iter().enumerate() {
            set.push(*gpu);
            self.search(&others[at + 1..], wanted - 1, set, best);
            set.pop();
        }
    }

    /// A set that has each time the GPU that is connected best with those before.
    fn grown(&self, first: &[u32], others: &[u32], wanted: usize) -> Vec<u32> {
        let mut set = first.to_vec();
        for _ in 0..wanted {
            let left = others.iter().filter(|gpu| !set.contains(gpu));
            let worth = |gpu: &u32| set.iter().map(|other| self.of(*gpu, *other)).sum::<u64>();
            // The first of those that are alike.
            let Some(next) = left.rev().max_by_key(|gpu| worth(gpu)).copied() else {
                break;
            };
            set.push(next);
        }
        set
    }

    fn worth(&self, set: &[u32]) -> u64 {
        let pairs = set.iter().enumerate();
        let of = |(at, gpu): (usize, &u32)| -> u64 {
            set[at + 1..]
                .iter()
                .map(|other| self.of(*gpu, *other))
                .sum()
        };
        pairs.map(of).sum()
    }

    fn of(&self, one: u32, other: u32) -> u64 {
        self.0.get(&(one, other)).copied().unwrap_or(0)
    }
}

/// How many sets of `wanted` there are of so many; at most somewhat above [`MOST_SETS`].
fn sets(of: usize, wanted: usize) -> usize {
    let mut sets = 1usize;
    for at in 0..wanted {
        sets = sets.saturating_mul(of - at) / (at + 1);
        if sets > MOST_SETS {
            break;
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight GPUs, of which `level` and `direct` say how two are connected.
    fn links(level: fn(u32, u32) -> u32, direct: fn(u32, u32) -> u32, switched: u32) -> LinkMap {
        let gpus: Vec<u32> = (0..8).collect();
        let pair = |one: u32, other: u32| PairLinks {
            direct: direct(one, other),
            level: Some(level(one, other)),
        };
        let of = |gpu: &u32| GpuLinks {
            switched,
            others: gpus.iter().map(|other| pair(*gpu, *other)).collect(),
        };
        let told: Vec<GpuLinks> = gpus.iter().map(of).collect();
        LinkMap::new(&gpus, &told)
    }

    fn sorted(mut set: Vec<u32>) -> Vec<u32> {
        set.sort_unstable();
        set
    }

    #[test]
    fn the_best_set_lies_in_one_socket_and_has_whole_pairs() {
        let socket = |one, other| if one / 4 == other / 4 { 40 } else { 50 };
        let sockets = links(socket, |_, _| 0, 0);
        assert_eq!(
            sorted(sockets.best(&[], &[7, 0, 5, 3, 6, 4], 4)),
            [4, 5, 6, 7]
        );
        assert_eq!(
            sorted(sockets.best(&[3], &[7, 6, 5, 4, 0, 1], 3)),
            [0, 1, 3]
        );
        let pair = |one, other| if one / 2 == other / 2 { 4 } else { 0 };
        let pairs = links(socket, pair, 0);
        assert_eq!(sorted(pairs.best(&[], &[0, 2, 3, 5], 2)), [2, 3]);
        assert_eq!(sorted(pairs.best(&[], &[0, 1, 3, 6, 7], 4)), [0, 1, 6, 7]);
        // All are on one switch: the socket still decides.
        let switch = links(socket, |_, _| 0, 12);
        assert_eq!(
            sorted(switch.best(&[], &[1, 7, 2, 6, 3, 0], 4)),
            [0, 1, 2, 3]
        );
    }

    #[test]
    fn where_nothing_is_told_the_first_are_taken() {
        assert_eq!(LinkMap::default().best(&[], &[5, 1, 7], 2), [5, 1]);
        assert_eq!(LinkMap::default().best(&[2], &[5, 2], 9), [2, 5]);
    }

    #[test]
    fn of_many_gpus_a_set_grows() {
        let gpus: Vec<u32> = (0..64).collect();
        let pair = |one: u32, other: u32| PairLinks {
            direct: u32::from(one / 8 == other / 8),
            level: None,
        };
        let of = |gpu: &u32| GpuLinks {
            switched: 0,
            others: gpus.iter().map(|other| pair(*gpu, *other)).collect(),
        };
        let told: Vec<GpuLinks> = gpus.iter().map(of).collect();
        let links = LinkMap::new(&gpus, &told);
        assert_eq!(
            sorted(links.best(&[40], &gpus, 8)),
            (40..48).collect::<Vec<_>>()
        );
    }
}
