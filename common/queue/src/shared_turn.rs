//! Which shared device is kept for a waiter that wants all of one: small shares one after the other would
//! never leave one free. One device at a time, so that the others go on being shared. Pure.

use std::collections::BTreeMap;

use getgpu_model::{UNITS, Uuid};

/// The device, and what has ended on others meanwhile.
#[derive(Debug, Default)]
pub struct SharedTurn {
    device: Option<Uuid>,
    /// The units in use at the last look.
    used: Vec<(Uuid, i64)>,
    /// How many units have come free on each other device since this one is kept.
    ended: BTreeMap<Uuid, i64>,
    /// How often the turn has moved: each time it stays for twice as long, so that it cannot move on
    /// for ever.
    moves: u32,
}

impl SharedTurn {
    /// Whether it is this device.
    pub fn is_at(&self, uuid: &Uuid) -> bool {
        self.device.as_ref() == Some(uuid)
    }

    /// The device to keep now, of those that are shared with their units in use: the least used one,
    /// until so much has ended on another that it would have been free in that time.
    pub fn device(&mut self, used: &[(Uuid, i64)]) -> Option<Uuid> {
        for (uuid, units) in used {
            let before = self.used.iter().find(|(known, _)| known == uuid);
            let ended = before.map_or(0, |(_, before)| before - units).max(0);
            *self.ended.entry(uuid.clone()).or_default() += ended;
        }
        self.used = used.to_vec();
        let is_there = used.iter().any(|(uuid, _)| self.is_at(uuid));
        let worth = UNITS << self.moves.min(20);
        let next = if is_there {
            let mut others = used.iter().filter(|(uuid, _)| !self.is_at(uuid));
            others.find(|(uuid, _)| self.ended.get(uuid).is_some_and(|ended| *ended >= worth))
        } else {
            used.iter().min_by_key(|(_, units)| *units)
        };
        if !is_there || next.is_some() {
            self.moves += u32::from(is_there);
            self.device = next.map(|(uuid, _)| uuid.clone());
            self.ended.clear();
        }
        self.device.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(n: u32) -> Uuid {
        Uuid::parse(&format!("MIG-{n:08x}-1111-5222-8333-444455556666")).unwrap()
    }

    /// The device that is kept after each of these looks at the quarters in use of two devices.
    fn kept(looks: &[[i64; 2]]) -> Vec<Option<u32>> {
        let mut turn = SharedTurn::default();
        let look = |quarters: &[i64; 2]| {
            let used = [
                (uuid(1), quarters[0] * UNITS / 4),
                (uuid(2), quarters[1] * UNITS / 4),
            ];
            let kept = turn.device(&used);
            kept.map(|kept| if kept == uuid(1) { 1 } else { 2 })
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn the_least_used_device_is_kept_until_it_is_free() {
        assert_eq!(
            kept(&[[3, 2], [2, 2], [1, 2], [3, 1], [3, 0]]),
            [Some(2); 5]
        );
        assert_eq!(SharedTurn::default().device(&[]), None);
    }

    /// One share that runs for hours, beside a device on which short ones come and go.
    #[test]
    fn where_a_devices_worth_has_ended_elsewhere_the_turn_goes_there() {
        let looks = [
            [1, 3],
            [1, 2],
            [1, 3],
            [1, 2],
            [1, 3],
            [1, 2],
            [1, 3],
            [1, 2],
            [1, 1],
        ];
        let before = [Some(1); 7];
        assert_eq!(kept(&looks)[..7], before);
        assert_eq!(kept(&looks)[7..], [Some(2); 2]);
    }

    /// What ends on all of many devices together is no reason to leave one that drains.
    #[test]
    fn among_many_devices_the_turn_stays_until_one_of_them_would_be_free() {
        let mut turn = SharedTurn::default();
        let mut look = |at: i64| {
            let quarters = |n: i64| {
                if n == 0 {
                    2
                } else {
                    4 - i64::from((at + n) % 5 == 0)
                }
            };
            let used: Vec<_> = (0..8)
                .map(|n| (uuid(n as u32), quarters(n) * UNITS / 4))
                .collect();
            turn.device(&used)
        };
        assert!((0..15).all(|at| look(at) == Some(uuid(0))));
        let moved = (15..30).filter_map(&mut look).find(|kept| *kept != uuid(0));
        assert!(
            moved.is_some(),
            "one after the other, four quarters end there"
        );
    }
}
