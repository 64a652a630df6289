//! A set of CPUs of any size, from and to the words that the kernel and NVML use, and the list
//! form of cpuset(7): `0-31,64-95`. Pure; the mask of a process is read and set
//! elsewhere.

use std::collections::BTreeSet;
use std::ffi::c_ulong;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::quantity::digits;

/// Bits of a word.
const BITS: usize = c_ulong::BITS as usize;
/// A list with a higher number than this is no list of CPUs; Linux has been built for
/// 8,192.
const MOST: usize = 1 << 20;

/// A set of CPUs, by their numbers in /sys/devices/system/cpu.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<usize>);

impl CpuSet {
    /// From words as sched_getaffinity(2) and nvmlDeviceGetCpuAffinity fill them: CPU n
    /// is bit n % 64 of word n / 64.
    pub fn from_words(words: &[c_ulong]) -> Self {
        let bits = 0..words.len() * BITS;
        bits.filter(|bit| words[bit / BITS] & (1 << (bit % BITS)) != 0)
            .collect()
    }

    /// The same words, without those behind the last CPU.
    pub(crate) fn words(&self) -> Vec<c_ulong> {
        let mut words = vec![0; self.0.last().map_or(0, |last| last / BITS + 1)];
        for cpu in &self.0 {
            words[cpu / BITS] |= 1 << (cpu % BITS);
        }
        words
    }

    /// How many CPUs it has.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has this CPU.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// CPUs of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// CPUs of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// CPUs that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// Runs of numbers that follow each other: first and last.
    fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for cpu in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
        runs
    }
}

/// How many CPUs two sets have in common.
pub fn overlap(a: &CpuSet, b: &CpuSet) -> usize {
    a.0.intersection(&b.0).count()
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.runs().into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

fn cpu_number(text: &str) -> Option<usize> {
    digits(text).filter(|cpu| *cpu < MOST)
}

impl FromStr for CpuSet {
    type Err = String;

    /// The list form of cpuset(7), as sysfs prints it; an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{}` is not a list of CPUs", text.trim());
        let mut ranges = Vec::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first = cpu_number(first).ok_or_else(bad)?;
            let last = cpu_number(last).ok_or_else(bad)?;
            if first > last {
                return Err(bad());
            }
            ranges.push(first..=last);
        }
        Ok(ranges.into_iter().flatten().collect())
    }
}

impl TryFrom<String> for CpuSet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn lists_as_the_kernel_writes_them() {
        for list in ["", "0", "0-1", "0-31,64-95", "3,5,7-9,1023-1025,8191"] {
            assert_eq!(set(list).to_string(), list);
            assert_eq!(set(&format!("{list}\n")), set(list));
            let json = serde_json::to_string(&set(list)).unwrap();
            assert_eq!(
                (json.as_str(), serde_json::from_str(&json).unwrap()),
                (&*format!("\"{list}\""), set(list))
            );
        }
        assert_eq!(set("1,0,2-3,3-4").to_string(), "0-4");
        #[rustfmt::skip]
        let cases = [
            "a", "1-", "-1", "2-1", "1,,2", ",", "0x3", "1048576", "0-4294967295",
            "99999999999999999999999", "+1",
        ];
        for bad in cases {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn words_and_numbers() {
        let many = set("0-2047");
        assert_eq!((many.count(), many.words().len() * BITS), (2048, 2048));
        assert!(many.contains(2047) && !many.contains(2048));
        let longer = [many.words(), vec![0, 0]].concat();
        assert_eq!(CpuSet::from_words(&longer), many);
        let few: CpuSet = [BITS + 1, 3, 0].into_iter().collect();
        assert_eq!(CpuSet::from_words(&[0b1001, 0b10]), few);
        assert_eq!(few.iter().collect::<Vec<_>>(), [0, 3, BITS + 1]);
        assert!(CpuSet::from_words(&[0; 16]).is_empty() && CpuSet::default().is_empty());
        assert!(!few.is_empty());
    }

    #[test]
    fn sets_of_different_lengths() {
        let (short, long) = (set("0-7"), set("4-11,1500"));
        for (one, other, rest) in [(&short, &long, "0-3"), (&long, &short, "8-11,1500")] {
            assert_eq!(one.intersection(other), set("4-7"));
            assert_eq!(one.union(other), set("0-11,1500"));
            assert_eq!(one.difference(other), set(rest));
        }
        let common = [&long, &short, &set("1-3")].map(|other| overlap(&long, other));
        assert_eq!(common, [9, 4, 0]);
        assert!(long.difference(&long).is_empty() && long.intersection(&set("1-3")).is_empty());
    }
}
