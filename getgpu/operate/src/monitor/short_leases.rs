//! Devices on which leases end at once while leases on other devices last: NVML does not see
//! everything that keeps CUDA from starting. It is told, and nothing acts on it. Only leases
//! that a look at the lock found count, so that it is a sample. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use getgpu_model::Uuid;

/// How far back is looked.
const WINDOW: Duration = Duration::from_secs(600);
/// A lease that ended in less than this was short.
pub const SHORT: Duration = Duration::from_secs(2);
/// So many short leases make a device suspect.
const MANY: usize = 5;

/// The end of a lease.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Instant,
    is_short: bool,
}

/// The ends of leases of the last minutes, by device.
#[derive(Debug, Default)]
pub struct LeaseEnds {
    devices: BTreeMap<Uuid, VecDeque<End>>,
}

impl LeaseEnds {
    /// Notes the end of a lease on a device that lasted so long.
    pub fn note(&mut self, device: &Uuid, lasted: Duration, now: Instant) {
        let ends = self.devices.entry(device.clone()).or_default();
        ends.push_back(End {
            at: now,
            is_short: lasted < SHORT,
        });
    }

    /// The devices on which leases only end at once, each with how many did. `lasting`: the
    /// devices that are leased now, and have been for longer.
    pub fn suspects(&mut self, lasting: &[Uuid], now: Instant) -> Vec<(Uuid, usize)> {
        for ends in self.devices.values_mut() {
            ends.retain(|end| now.saturating_duration_since(end.at) < WINDOW);
        }
        self.devices.retain(|_, ends| !ends.is_empty());
        let lasted: Vec<&Uuid> = self
            .devices
            .iter()
            .filter(|(_, ends)| ends.iter().any(|end| !end.is_short))
            .map(|(device, _)| device)
            .chain(lasting)
            .collect();
        // Where none lasts, short programs are what this node runs.
        if lasted.is_empty() {
            return Vec::new();
        }
        let short = self
            .devices
            .iter()
            .filter(|(device, ends)| ends.len() >= MANY && !lasted.contains(device));
        short
            .map(|(device, ends)| (device.clone(), ends.len()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(n: u32) -> Uuid {
        Uuid::parse(&format!("GPU-{n:08x}-1111-5222-8333-444455556666")).unwrap()
    }

    /// The suspects after these ends: device, when, how many tenths of a second it lasted.
    fn suspects(ends: &[(u32, u64, u64)], lasting: &[u32], at: u64) -> Vec<(Uuid, usize)> {
        let (mut found, start) = (LeaseEnds::default(), Instant::now());
        for (device, when, tenths) in ends {
            let lasted = Duration::from_millis(tenths * 100);
            found.note(&uuid(*device), lasted, start + Duration::from_secs(*when));
        }
        let lasting: Vec<Uuid> = lasting.iter().map(|n| uuid(*n)).collect();
        found.suspects(&lasting, start + Duration::from_secs(at))
    }

    #[test]
    fn five_short_leases_while_others_last_make_a_suspect() {
        let five: Vec<_> = (0..5).map(|n| (3, n * 10, 9)).collect();
        let with = |more: &[(u32, u64, u64)]| [five.as_slice(), more].concat();
        let found = vec![(uuid(3), 5)];
        assert_eq!(suspects(&five, &[1], 60), found, "another is leased");
        assert_eq!(
            suspects(&with(&[(1, 5, 600)]), &[], 60),
            found,
            "another has lasted"
        );
        let six = vec![(uuid(3), 6)];
        assert_eq!(
            suspects(&with(&[(3, 55, 19)]), &[1], 60),
            six,
            "just too short"
        );
        let none = Vec::new();
        assert_eq!(suspects(&five, &[], 60), none, "all of them are short here");
        assert_eq!(suspects(&five[1..], &[1], 60), none, "four");
        assert_eq!(
            suspects(&with(&[(3, 55, 20)]), &[1], 60),
            none,
            "one lasted there"
        );
        assert_eq!(suspects(&five, &[3, 1], 60), none, "one lasts there");
        assert_eq!(suspects(&five, &[1], 599), found);
        assert_eq!(
            suspects(&five, &[1], 600),
            none,
            "the first is too long ago"
        );
    }
}
