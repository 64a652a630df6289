//! How long devices have been empty without a break, and what is due. Pure but for reading
//! the clocks: a suspended node and a clock that was set begin the spell anew.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use getgpu_common::sys;

/// The part of the limit after which a warning is due.
const WARN_AT: f64 = 0.8;
/// Time between two looks, as a part of the limit and at most.
const LOOKS_IN_LIMIT: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How far the wall clock may be corrected without being set.
const SET: Duration = Duration::from_secs(60);
/// How long a node is suspended at least, if it is.
const SUSPENDED: Duration = Duration::from_secs(1);

/// What a look at the devices found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceUse {
    /// No process uses any of them.
    Empty,
    /// A process does.
    Used,
    /// NVML does not answer, or not for certain.
    Unknown,
}

/// What is due after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Nothing,
    Warn,
    Report,
}

/// The clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Since 1970.
    pub unix: Duration,
    /// Since boot, with the time in suspend.
    pub boot: Duration,
    /// Since boot, without the time in suspend.
    pub running: Duration,
}

impl Clocks {
    /// How long the machine was suspended since it was booted.
    fn asleep(self) -> Duration {
        self.boot.saturating_sub(self.running)
    }

    pub fn now() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            unix: unix.unwrap_or_default(),
            boot: sys::boot_time(),
            running: sys::running_time(),
        }
    }
}

/// Whether the user was warned and the administrator informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Told {
    Nothing,
    Warning,
    Report,
}

/// A time without use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    pub since: Clocks,
    pub told: Told,
}

impl Spell {
    /// Whether the clocks have gone on evenly since it began.
    fn is_unbroken(&self, now: Clocks) -> bool {
        let set = (now.unix + self.since.boot).abs_diff(self.since.unix + now.boot);
        now.asleep().abs_diff(self.since.asleep()) < SUSPENDED && set < SET
    }
}

/// The spell after a look, and what is due. Nothing is reported that was not warned of at
/// an earlier look.
pub fn next(
    spell: Option<Spell>,
    found: DeviceUse,
    now: Clocks,
    limit: Duration,
) -> (Option<Spell>, Act) {
    if found != DeviceUse::Empty {
        return (None, Act::Nothing);
    }
    let begun = Spell {
        since: now,
        told: Told::Nothing,
    };
    let mut spell = spell
        .filter(|spell| spell.is_unbroken(now))
        .unwrap_or(begun);
    let age = now.running.saturating_sub(spell.since.running);
    let act = match spell.told {
        Told::Nothing if age >= limit.mul_f64(WARN_AT) => {
            spell.told = Told::Warning;
            Act::Warn
        }
        Told::Warning if age >= limit => {
            spell.told = Told::Report;
            Act::Report
        }
        _ => Act::Nothing,
    };
    (Some(spell), act)
}

/// How long from one look to the next: a part of the limit.
pub fn between_looks(limit: Duration) -> Duration {
    (limit / LOOKS_IN_LIMIT).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> Clocks {
        let time = Duration::from_secs(seconds);
        Clocks {
            unix: Duration::from_secs(1_700_000_000) + time,
            boot: Duration::from_secs(100) + time,
            running: Duration::from_secs(50) + time,
        }
    }

    fn acts(looks: &[(DeviceUse, Clocks)]) -> Vec<Act> {
        let mut spell = None;
        let act = |(look, now): &(DeviceUse, Clocks)| {
            let act;
            (spell, act) = next(spell, *look, *now, LIMIT);
            act
        };
        looks.iter().map(act).collect()
    }

    #[test]
    fn a_warning_at_four_fifths_then_one_report() {
        use Act::{Nothing, Report, Warn};
        let times = [0, 300, 2879, 2880, 3000, 3600, 4000, 90_000];
        let looks = times.map(|time| (DeviceUse::Empty, at(time)));
        let due = [
            Nothing, Nothing, Nothing, Warn, Nothing, Report, Nothing, Nothing,
        ];
        assert_eq!(acts(&looks), due);
    }

    #[test]
    fn nothing_is_reported_without_a_warning_before() {
        let looks = [0, 9000, 9001].map(|time| (DeviceUse::Empty, at(time)));
        assert_eq!(acts(&looks), [Act::Nothing, Act::Warn, Act::Report]);
    }

    #[test]
    fn use_and_doubt_begin_anew() {
        for other in [DeviceUse::Used, DeviceUse::Unknown] {
            let looks = [
                (DeviceUse::Empty, at(0)),
                (other, at(2000)),
                (DeviceUse::Empty, at(2001)),
                (DeviceUse::Empty, at(4000)),
            ];
            assert!(acts(&looks).iter().all(|act| *act == Act::Nothing));
        }
    }

    #[test]
    fn suspend_and_a_clock_that_is_set_begin_anew() {
        let asleep = Clocks {
            boot: at(9000).boot,
            unix: at(9000).unix,
            ..at(100)
        };
        let forth = Clocks {
            unix: at(90_000).unix,
            ..at(3000)
        };
        let back = Clocks {
            unix: Duration::from_secs(1_000_000_000),
            ..at(3000)
        };
        for odd in [asleep, forth, back] {
            let (spell, _) = next(None, DeviceUse::Empty, at(0), LIMIT);
            let (spell, act) = next(spell, DeviceUse::Empty, odd, LIMIT);
            assert_eq!((spell.unwrap().since, act), (odd, Act::Nothing));
        }
        // A correction by the time service is none.
        let slewed = Clocks {
            unix: at(3001).unix,
            ..at(3000)
        };
        let (spell, _) = next(None, DeviceUse::Empty, at(0), LIMIT);
        assert_eq!(next(spell, DeviceUse::Empty, slewed, LIMIT).1, Act::Warn);
    }

    #[test]
    fn looks_come_ten_times_in_the_limit() {
        assert_eq!(
            between_looks(Duration::from_secs(60)),
            Duration::from_secs(6)
        );
        assert_eq!(between_looks(LIMIT * 10), LONGEST_PAUSE);
    }
}
