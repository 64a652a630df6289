//! What a waiter remembers of devices that have room on the lock: since when, and when
//! NVML is to be asked about each again. Pure. A device whose lock has just ended is
//! asked about at once and some times more, one that others use without a lock once a
//! second.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use getgpu_model::Uuid;

/// Pauses in milliseconds after an answer that the device is busy: its last program may still
/// be on its way out.
const AGAIN: [u64; 3] = [5, 20, 100];
/// Between two questions about a device that stays busy.
const SECOND: Duration = Duration::from_secs(1);
/// Between two questions about a device whose GPU does not answer.
const SILENT: Duration = Duration::from_secs(30);
/// After losing a device to another one's try.
const LOST: Duration = Duration::from_millis(2);

/// Devices that have room on the lock.
#[derive(Debug, Default)]
pub struct Availability {
    /// The devices that are free on the lock.
    pub free: Vec<Uuid>,
    /// If those who try them at this moment leave them.
    pub(crate) tentative: Vec<Uuid>,
    /// How many are kept for another waiter.
    pub(crate) kept: usize,
}

impl Availability {
    /// Whether so many could be had only with some of what is kept for another waiter.
    pub(crate) fn suffices_with_kept(&self, wanted: usize) -> bool {
        let with_kept = self.free.len() + self.kept;
        (self.free.len() + 1..=with_kept).contains(&wanted)
    }
}

#[derive(Clone, Copy, Debug)]
struct SeenDevice {
    tentative: bool,
    since: Instant,
    next: Instant,
    /// How often NVML was asked about it.
    asked: usize,
}

/// Devices with room.
#[derive(Debug, Default)]
pub(crate) struct RetrySchedule {
    seen: HashMap<Uuid, SeenDevice>,
    begun: bool,
}

impl RetrySchedule {
    /// Takes in what has room now.
    pub(crate) fn update(&mut self, availability: &Availability, now: Instant) {
        // What others just try, to ask NVML about it, was not in use in between.
        self.seen.retain(|uuid, seen| {
            seen.tentative = availability.tentative.contains(uuid);
            seen.tentative || availability.free.contains(uuid)
        });
        // What had room at the first look has not just become free.
        let asked = if self.begun { 0 } else { AGAIN.len() };
        for uuid in &availability.free {
            self.seen.entry(uuid.clone()).or_insert(SeenDevice {
                tentative: false,
                since: now,
                next: now,
                asked,
            });
        }
        self.begun = true;
    }

    /// Whether the device may be tried now.
    pub(crate) fn due(&self, uuid: &Uuid, now: Instant) -> bool {
        let is_due = |seen: &SeenDevice| !seen.tentative && seen.next <= now;
        self.seen.get(uuid).is_some_and(is_due)
    }

    /// NVML says that it is busy, or does not tell.
    pub(crate) fn busy(&mut self, uuid: &Uuid, now: Instant) {
        if let Some(seen) = self.seen.get_mut(uuid) {
            let pause = AGAIN.get(seen.asked).copied();
            seen.next = now + pause.map_or(SECOND, Duration::from_millis);
            seen.asked += 1;
        }
    }

    /// Its GPU does not answer: the next question may take seconds, too.
    pub fn silent(&mut self, uuid: &Uuid, now: Instant) {
        if let Some(seen) = self.seen.get_mut(uuid) {
            seen.next = now + SILENT;
        }
    }

    /// Another one has it, or tries it.
    pub(crate) fn lost(&mut self, uuid: &Uuid, now: Instant) {
        if let Some(seen) = self.seen.get_mut(uuid) {
            seen.next = now + LOST;
        }
    }

    /// How many of these were not found in use: for people.
    pub(crate) fn idle(&self, availability: &[Uuid]) -> usize {
        let is_idle = |seen: &SeenDevice| seen.since == seen.next;
        let idle = availability.iter();
        idle.filter(|uuid| self.seen.get(uuid).is_none_or(is_idle))
            .count()
    }

    /// How long until one may be tried again.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        let seen = self.seen.values();
        let pauses = seen.map(|seen| seen.next.saturating_duration_since(now));
        pauses.filter(|pause| !pause.is_zero()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(uuids: &[&Uuid]) -> Availability {
        let free = uuids.iter().map(|uuid| (*uuid).clone()).collect();
        Availability {
            free,
            ..Availability::default()
        }
    }

    fn uuid(n: u32) -> Uuid {
        Uuid::parse(&format!("MIG-{n:08x}-1111-5222-8333-444455556666")).unwrap()
    }

    #[test]
    fn a_device_that_has_just_become_free_is_asked_about_more_often() {
        let (a, b, start) = (uuid(1), uuid(2), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut memory = RetrySchedule::default();
        memory.update(&free(&[&a]), start);
        assert!(memory.due(&a, start));
        memory.busy(&a, start);
        assert!(
            !memory.due(&a, at(999)) && memory.due(&a, at(1000)),
            "was not in use"
        );
        memory.update(&free(&[&a, &b]), at(1000));
        for (now, next) in [(1000, 1005), (1005, 1025), (1025, 1125), (1125, 2125)] {
            assert!(memory.due(&b, at(now)));
            memory.busy(&b, at(now));
            assert!(!memory.due(&b, at(next - 1)) && memory.due(&b, at(next)));
        }
        assert!(memory.due(&a, at(1126)) && !memory.due(&b, at(1126)));
        memory.busy(&a, at(1126));
        memory.update(
            &Availability {
                free: vec![b.clone()],
                tentative: vec![a.clone()],
                kept: 0,
            },
            at(1200),
        );
        assert!(!memory.due(&a, at(2200)), "somebody tries it");
        memory.update(&free(&[&a, &b]), at(1300));
        assert!(
            !memory.due(&a, at(1300)),
            "and it was not in use in between"
        );
        assert!(memory.due(&a, at(2126)));
    }

    #[test]
    fn a_lost_device_is_tried_soon_and_the_earliest_look_is_next() {
        let (a, b, start) = (uuid(1), uuid(2), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut memory = RetrySchedule::default();
        assert_eq!(memory.pause(start), None, "nothing has room");
        memory.update(&free(&[&a, &b]), start);
        assert_eq!(memory.pause(start), None, "both may be tried now");
        assert_eq!(memory.idle(&[a.clone(), b.clone(), uuid(3)]), 3);
        memory.busy(&a, start);
        memory.lost(&b, start);
        assert!(!memory.due(&b, at(1)) && memory.due(&b, at(2)));
        assert_eq!(memory.pause(start), Some(LOST));
        assert_eq!(memory.pause(at(2)), Some(Duration::from_millis(998)));
        assert_eq!(
            memory.idle(&[a.clone(), b, uuid(3)]),
            1,
            "one that was not asked"
        );
        memory.silent(&a, start);
        assert!(!memory.due(&a, at(29_999)) && memory.due(&a, at(30_000)));
    }
}
