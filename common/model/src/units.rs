//! Parts of a device as sets of its units: what is taken, what is free, and which units a
//! share gets. Pure. A share may lie in several runs, so that no unit is lost between two
//! others.

use getgpu_linux::{OwnLock, Range, procfs::fdinfo};

/// Units of a device. A share of 1/k locks floor(UNITS/k) of them, so exactly k programs
/// fit for every k up to 848.
pub const UNITS: i64 = 720_720;

/// A set of units: runs in order, apart from each other, counted from the device's first
/// unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units(Vec<Range>);

impl Units {
    /// All units of a device.
    pub fn whole() -> Self {
        Self(Range::new(0, UNITS).into_iter().collect())
    }

    /// The parts of `region`, a device's range on the lock file, that `ranges` of the
    /// file cover.
    pub fn of(ranges: impl IntoIterator<Item = Range>, region: Range) -> Self {
        let inside = ranges
            .into_iter()
            .filter_map(|range| range.intersection(region)?.moved(-region.start()));
        Self::ordered(inside.collect())
    }

    /// The parts of `region` that a process's `locks` on the file of this inode cover.
    pub fn locked(locks: &[OwnLock], inode: u64, region: Range) -> Self {
        Self::of(fdinfo::within(locks, inode, region), region)
    }

    /// Joins runs that meet or overlap.
    fn ordered(mut runs: Vec<Range>) -> Self {
        runs.sort_by_key(|run| run.start());
        let mut joined: Vec<Range> = Vec::new();
        for run in runs {
            let meets = joined.pop_if(|last| run.start() <= last.end());
            let start = meets.map_or(run.start(), Range::start);
            let end = meets.map_or(run.end(), |last| last.end().max(run.end()));
            joined.extend(Range::between(start, end));
        }
        Self(joined)
    }

    /// How many units it has.
    pub fn count(&self) -> i64 {
        self.0.iter().map(|run| run.len()).sum()
    }

    /// Whether it is the whole device.
    pub fn is_whole(&self) -> bool {
        self.count() >= UNITS
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Units of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::ordered(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Units that are not in `taken`.
    #[must_use]
    pub fn difference(&self, taken: &Self) -> Self {
        let mut left = Vec::new();
        for run in &self.0 {
            let mut start = run.start();
            for hole in taken.0.iter().filter_map(|hole| hole.intersection(*run)) {
                left.extend(Range::between(start, hole.start()));
                start = start.max(hole.end());
            }
            left.extend(Range::between(start, run.end()));
        }
        Self(left)
    }

    /// The first `count` units: of the first run that has them all, else of several. None
    /// if there are fewer, or none are wanted.
    pub fn first(&self, count: i64) -> Option<Self> {
        if let Some(run) = self.0.iter().find(|run| run.len() >= count) {
            return Some(Self(vec![Range::new(run.start(), count)?]));
        }
        let (mut left, mut runs) = (count, Vec::new());
        for run in &self.0 {
            let len = run.len().min(left);
            runs.push(Range::new(run.start(), len)?);
            left -= len;
            if left == 0 {
                return Some(Self(runs));
            }
        }
        None
    }

    /// The runs, counted from the device's first unit.
    pub fn runs(&self) -> impl Iterator<Item = Range> + '_ {
        self.0.iter().copied()
    }

    /// The bytes of the lock file that stand for these units in `region`.
    pub fn at(&self, region: Range) -> impl Iterator<Item = Range> + '_ {
        self.0
            .iter()
            .filter_map(move |run| run.moved(region.start()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(runs: &[(i64, i64)]) -> Units {
        let range = |(start, len): &(i64, i64)| Range::new(*start, *len).unwrap();
        Units::ordered(runs.iter().map(range).collect())
    }

    #[test]
    fn exactly_k_shares_of_one_kth_fit() {
        for k in (2..=64).chain([100, 847, 848]) {
            let (share, mut free, mut fit) = (UNITS / k, Units::whole(), 0);
            while let Some(part) = free.first(share) {
                free = free.difference(&part);
                fit += 1;
            }
            assert_eq!(fit, k);
        }
    }

    #[test]
    fn a_share_may_lie_in_two_pieces() {
        let free = Units::whole().difference(&units(&[(UNITS / 3, UNITS / 3)]));
        let part = free.first(UNITS / 2).unwrap();
        assert_eq!((part.count(), part.0.len()), (UNITS / 2, 2));
        let left = free.difference(&part).count();
        assert_eq!(left, UNITS - UNITS / 3 - UNITS / 2);
        assert!(
            [UNITS, 0, -1]
                .iter()
                .all(|count| free.first(*count).is_none())
        );
    }

    #[test]
    fn runs_of_the_file_become_units_of_the_device() {
        let range = |start, len| Range::new(start, len).unwrap();
        let region = range(1000, UNITS);
        let file = [range(900, 150), range(1050, 10), range(2000, 5)];
        let (found, two) = (Units::of(file, region), units(&[(0, 60), (1000, 5)]));
        assert_eq!(found, two);
        assert!(found.at(region).eq([range(1000, 60), range(2000, 5)]));
        assert!(found.runs().eq([range(0, 60), range(1000, 5)]));
        assert_eq!(found.union(&units(&[(30, 970)])), units(&[(0, 1005)]));
        let rest = units(&[(0, 10), (20, 10)]).difference(&units(&[(5, 20)]));
        assert_eq!(rest, units(&[(0, 5), (25, 5)]));
        assert!(Units::whole().is_whole() && Units::default().is_empty());
    }
}
