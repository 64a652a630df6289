//! Which cores belong to which units of a device: core i of n has the units from i/n to
//! (i+1)/n, and a share has the cores whose first unit is its own. So two shares never
//! have the same core, however they lie, and the whole device has all of them. Pure.
//!
//! A share to which no first unit belongs gets the one core of which it has the most
//! units, together with that core's owner: so it is where there are fewer cores than
//! shares, and else only for a share that lies in pieces between others.

use std::ops::Range as Run;

use getgpu_model::{CpuSet, Units};

/// The CPUs of the cores that belong to `units`, where all `cores` together belong to
/// `all` of them. Empty if there are no cores.
pub fn cpus_of(cores: &[CpuSet], units: &Units, all: &Units) -> CpuSet {
    let runs = within(units, all);
    let with_units = || cores.iter().zip(core_units(cores.len(), all));
    let owned = with_units().filter(|(_, own)| runs.iter().any(|run| run.contains(&own.start)));
    let owned = owned.fold(CpuSet::default(), |cpus, (core, _)| cpus.union(core));
    if !owned.is_empty() {
        return owned;
    }
    let common = with_units().map(|(core, own)| (core, common_units(&runs, &own)));
    // Of equals the lowest.
    let most = common.rev().max_by_key(|(_, units)| *units);
    most.filter(|(_, units)| *units > 0)
        .map(|(core, _)| core.clone())
        .unwrap_or_default()
}

/// The units of each of so many cores.
fn core_units(
    cores: usize,
    all: &Units,
) -> impl DoubleEndedIterator<Item = Run<i64>> + ExactSizeIterator + use<> {
    let (units, count) = (all.count(), cores as i64);
    (0..cores).map(move |core| {
        let core = core as i64;
        core * units / count..(core + 1) * units / count
    })
}

fn common_units(runs: &[Run<i64>], own: &Run<i64>) -> i64 {
    runs.iter()
        .map(|run| (run.end.min(own.end) - run.start.max(own.start)).max(0))
        .sum()
}

/// Whether all units of the cores that belong to `units` are among them, so that no other
/// share has a part of one of these cores.
pub fn is_whole_cores(cores: &[CpuSet], units: &Units, all: &Units) -> bool {
    let runs = within(units, all);
    let mut owned = core_units(cores.len(), all)
        .filter(|own| runs.iter().any(|run| run.contains(&own.start)))
        .peekable();
    owned.peek().is_some()
        && owned.all(|own| {
            runs.iter()
                .any(|run| run.start <= own.start && own.end <= run.end)
        })
}

/// Where `units` lie when only those of `all` are counted.
fn within(units: &Units, all: &Units) -> Vec<Run<i64>> {
    units
        .runs()
        .map(|run| units_below(run.start(), all)..units_below(run.end(), all))
        .collect()
}

fn units_below(unit: i64, all: &Units) -> i64 {
    all.runs()
        .map(|run| (unit - run.start()).clamp(0, run.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use getgpu_linux::Range;
    use getgpu_model::UNITS;
    use getgpu_model::overlap;

    /// Cores with two threads each, numbered as most machines do.
    fn cores(count: usize) -> Vec<CpuSet> {
        (0..count)
            .map(|core| [core, core + count].into_iter().collect())
            .collect()
    }

    fn whole(cores: &[CpuSet]) -> CpuSet {
        cpus_of(cores, &Units::whole(), &Units::whole())
    }

    /// k equal shares, as they come one after the other.
    fn shares(k: i64) -> Vec<Units> {
        let mut free = Units::whole();
        let next = |_| {
            let share = free.first(UNITS / k).unwrap();
            free = free.difference(&share);
            share
        };
        (0..k).map(next).collect()
    }

    fn parts(cores: &[CpuSet], shares: &[Units]) -> Vec<CpuSet> {
        shares
            .iter()
            .map(|units| cpus_of(cores, units, &Units::whole()))
            .collect()
    }

    fn disjoint(parts: &[CpuSet]) -> bool {
        let mut seen = CpuSet::default();
        parts.iter().all(|part| {
            let apart = overlap(&seen, part) == 0;
            seen = seen.union(part);
            apart
        })
    }

    #[test]
    fn equal_shares_have_cores_of_their_own_that_are_all_of_them() {
        for n in (1..=33).chain([64, 127, 128, 255]) {
            let cores = cores(n);
            let all = cores
                .iter()
                .fold(CpuSet::default(), |all, core| all.union(core));
            assert_eq!(whole(&cores), all);
            for k in 1..=n.min(20) {
                let parts = parts(&cores, &shares(k as i64));
                assert!(disjoint(&parts), "{n} cores, {k} shares");
                let counts: Vec<usize> = parts.iter().map(|part| part.count() / 2).collect();
                assert!(
                    counts
                        .iter()
                        .all(|count| [n / k, n.div_ceil(k)].contains(count)),
                    "{n} cores: {counts:?}"
                );
                assert_eq!(counts.iter().sum::<usize>(), n, "{n} cores, {k} shares");
            }
        }
        // Here the last of 1,024 cores belongs to units that no share has.
        for (n, k) in [(848, 848), (1024, 847), (1024, 848)] {
            let parts = parts(&cores(n), &shares(k));
            assert!(
                disjoint(&parts) && parts.iter().all(|part| !part.is_empty()),
                "{n} cores, {k} shares"
            );
        }
    }

    #[test]
    fn whatever_lies_apart_has_no_core_in_common() {
        let mut state = 1u64;
        let mut random = |below: i64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as i64 % below
        };
        for _ in 0..100 {
            let cores = cores(1 + random(64) as usize);
            // Taken one after the other, with holes that are filled again in pieces.
            let (mut free, mut held) = (Units::whole(), Vec::new());
            for _ in 0..40 {
                if random(3) == 0 && !held.is_empty() {
                    let gone: Units = held.swap_remove(random(held.len() as i64) as usize);
                    free = free.union(&gone);
                } else if let Some(share) = free.first(1 + random(UNITS / 4)) {
                    free = free.difference(&share);
                    held.push(share);
                }
            }
            let firsts = |units: &Units| {
                let first = |core: usize| {
                    let region = Range::new(0, UNITS).unwrap();
                    Units::of(
                        [Range::byte(core as i64 * UNITS / cores.len() as i64)],
                        region,
                    )
                };
                (0..cores.len()).any(|core| first(core).difference(units).is_empty())
            };
            let (owners, guests): (Vec<Units>, Vec<Units>) = held.into_iter().partition(firsts);
            assert!(disjoint(&parts(&cores, &owners)));
            assert!(
                parts(&cores, &guests).iter().all(|part| part.count() == 2),
                "a guest has one core"
            );
        }
    }

    #[test]
    fn fewer_cores_than_shares_are_shared_evenly() {
        for (n, k) in [(1, 1), (1, 8), (2, 3), (3, 4), (4, 7), (8, 848), (16, 33)] {
            let (cores, what) = (cores(n), format!("{n} cores, {k} shares"));
            let parts = parts(&cores, &shares(k));
            assert!(parts.iter().all(|part| part.count() == 2), "{what}");
            for core in &cores {
                let guests = parts.iter().filter(|part| *part == core).count();
                let most = (k as usize).div_ceil(n) + 1;
                assert!((1..=most).contains(&guests), "{what}: {guests}");
            }
        }
    }

    #[test]
    fn pieces_that_begin_no_core_have_the_one_they_share_most() {
        // Of two cores a tenth of the first, and a quarter of the second.
        let half = UNITS / 2;
        let pieces = [(1, half / 10), (half + half / 2, half / 4)];
        let ranges = pieces.map(|(start, length)| Range::new(start, length).unwrap());
        let units = Units::of(ranges, Range::new(0, UNITS).unwrap());
        let cores = cores(2);
        assert_eq!(cpus_of(&cores, &units, &Units::whole()), cores[1]);
    }

    #[test]
    fn inside_a_share_its_cores_are_divided_by_its_units() {
        let (cores, thirds, sixths) = (cores(6), shares(3), shares(6));
        let outer = thirds[0].union(&thirds[2]);
        assert_eq!(cpus_of(&cores, &outer, &outer), whole(&cores));
        #[rustfmt::skip]
        let cases = [
            (&thirds[0], &outer, "0-2,6-8"), (&thirds[2], &outer, "3-5,9-11"),
            (&sixths[4], &thirds[2], "0-2,6-8"), (&sixths[5], &thirds[2], "3-5,9-11"),
        ];
        for (units, all, cpus) in cases {
            assert_eq!(cpus_of(&cores, units, all).to_string(), cpus);
        }
    }

    #[test]
    fn only_whole_cores_are_a_shares_alone() {
        let alone = |n: usize, k: i64| -> Vec<bool> {
            let whole = |units| is_whole_cores(&cores(n), units, &Units::whole());
            shares(k).iter().map(whole).collect()
        };
        assert_eq!(alone(8, 1), [true]);
        assert_eq!(alone(8, 4), [true; 4]);
        assert_eq!(alone(4, 3), [false, false, true]);
        assert_eq!(alone(2, 4), [false; 4]);
        assert_eq!(alone(0, 1), [false]);
        let nothing = cpus_of(&cores(8), &Units::default(), &Units::whole());
        assert!(nothing.is_empty() && whole(&[]).is_empty());
    }
}
