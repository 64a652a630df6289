//! A set of CPUs of any size, in the words that the kernel and NVML use, and in the list
//! form of cpuset(7): `0-31,64-95`. Pure; the mask of a process is read and set
//! elsewhere.

use std::ffi::c_ulong;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bits of a word.
const BITS: usize = c_ulong::BITS as usize;
/// A list with a higher number than this is no list of CPUs; Linux has been built for
/// 8,192.
const MOST: usize = 1 << 20;

/// A set of CPUs, by their numbers in /sys/devices/system/cpu.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(Vec<c_ulong>);

impl CpuSet {
    /// From words as sched_getaffinity(2) and nvmlDeviceGetCpuAffinity fill them: CPU n
    /// is bit n % 64 of word n / 64.
    pub fn from_words(mut words: Vec<c_ulong>) -> Self {
        words.truncate(
            words
                .iter()
                .rposition(|word| *word != 0)
                .map_or(0, |last| last + 1),
        );
        Self(words)
    }

    /// The same words, without those behind the last CPU.
    pub fn words(&self) -> &[c_ulong] {
        &self.0
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this CPU is in it.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0
            .get(cpu / BITS)
            .is_some_and(|word| word & (1 << (cpu % BITS)) != 0)
    }

    /// Their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let numbers = |(place, word): (usize, &c_ulong)| {
            let word = *word;
            (0..BITS)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| place * BITS + bit)
        };
        self.0.iter().enumerate().flat_map(numbers)
    }

    /// CPUs of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::from_words(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    /// CPUs of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let word = |words: &[c_ulong], place| words.get(place).copied().unwrap_or(0);
        Self(
            (0..self.0.len().max(other.0.len()))
                .map(|place| word(&self.0, place) | word(&other.0, place))
                .collect(),
        )
    }

    /// CPUs that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let left =
            |(place, word): (usize, &c_ulong)| word & !other.0.get(place).copied().unwrap_or(0);
        Self::from_words(self.0.iter().enumerate().map(left).collect())
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
    a.0.iter()
        .zip(&b.0)
        .map(|(a, b)| (a & b).count_ones() as usize)
        .sum()
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut words = Vec::new();
        for cpu in cpus {
            if words.len() <= cpu / BITS {
                words.resize(cpu / BITS + 1, 0);
            }
            words[cpu / BITS] |= 1 << (cpu % BITS);
        }
        Self(words)
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

impl FromStr for CpuSet {
    type Err = String;

    /// The list form of cpuset(7), as sysfs prints it; an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{}` is not a list of CPUs", text.trim());
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits
                .then(|| text.parse().ok())
                .flatten()
                .filter(|cpu| *cpu < MOST)
                .ok_or_else(bad)
        };
        let mut ranges = Vec::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
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
        for bad in [
            "a",
            "1-",
            "-1",
            "2-1",
            "1,,2",
            ",",
            "0x3",
            "1048576",
            "0-4294967295",
            "99999999999999999999999",
            "+1",
        ] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn words_and_numbers() {
        let many = set("0-2047");
        assert_eq!((many.count(), many.words().len() * BITS), (2048, 2048));
        assert!(many.contains(2047) && !many.contains(2048));
        assert_eq!(
            CpuSet::from_words(many.words().iter().copied().chain([0, 0]).collect()),
            many
        );
        assert_eq!(
            CpuSet::from_words(vec![0b1001, 0b10]),
            [0, 3, BITS + 1].into_iter().collect()
        );
        assert!(CpuSet::from_words(vec![0; 16]).is_empty() && CpuSet::default().is_empty());
        let few: CpuSet = [BITS + 1, 2, 0].into_iter().collect();
        let in_it = |cpu: &usize| few.contains(*cpu);
        assert_eq!(
            (0..3 * BITS).filter(in_it).collect::<Vec<_>>(),
            [0, 2, BITS + 1]
        );
        assert!(!few.is_empty());
    }

    #[test]
    fn sets_of_different_lengths() {
        let (short, long) = (set("0-7"), set("4-11,1500"));
        assert_eq!(
            (short.intersection(&long), long.intersection(&short)),
            (set("4-7"), set("4-7"))
        );
        assert_eq!(
            (short.union(&long), long.union(&short)),
            (set("0-11,1500"), set("0-11,1500"))
        );
        assert_eq!(
            (short.difference(&long), long.difference(&short)),
            (set("0-3"), set("8-11,1500"))
        );
        assert_eq!(
            (
                overlap(&short, &long),
                overlap(&long, &long),
                overlap(&short, &set("8"))
            ),
            (4, 9, 0)
        );
        assert!(long.difference(&long).is_empty() && long.intersection(&set("1-3")).is_empty());
    }
}
