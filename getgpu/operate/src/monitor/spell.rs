//! How long devices have been empty, or idle, without a break, and what is due. By a clock that
//! cannot be set and stands still while the node is suspended (CLOCK_MONOTONIC).

use std::time::{Duration, Instant};

use getgpu_model::quantity::unix_seconds;

/// The part of the limit after which a warning is due.
const WARN_AT: f64 = 0.8;
/// How many looks there are within the limit.
const LOOKS_IN_LIMIT: u32 = 10;
/// Between two looks at most: a program that computes from time to time is seen at one of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What is due after a look, and what the user has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Warning,
    Report,
}

/// A time without use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    since: Instant,
    /// The same in Unix seconds.
    pub since_unix: u64,
    told: Option<Notice>,
}

impl Spell {
    /// How long it has lasted.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

/// The spell after a look, and what is due. Nothing is reported that was not warned of at
/// an earlier look. `is_in`: NVML says for certain that it is in such a time.
pub fn next(
    spell: Option<Spell>,
    is_in: bool,
    now: Instant,
    limit: Duration,
) -> (Option<Spell>, Option<Notice>) {
    if !is_in {
        return (None, None);
    }
    let mut spell = spell.unwrap_or_else(|| Spell {
        since: now,
        since_unix: unix_seconds(),
        told: None,
    });
    let age = now.saturating_duration_since(spell.since);
    let due = match spell.told {
        None if age >= limit.mul_f64(WARN_AT) => Some(Notice::Warning),
        Some(Notice::Warning) if age >= limit => Some(Notice::Report),
        _ => None,
    };
    spell.told = due.or(spell.told);
    (Some(spell), due)
}

/// How long from one look to the next: a part of the limit.
pub fn between_looks(limit: Duration) -> Duration {
    (limit / LOOKS_IN_LIMIT).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(3600);

    /// What is due after looks, each so many seconds after the first.
    fn due(looks: &[(bool, u64)]) -> Vec<Option<Notice>> {
        let (begun, mut spell) = (Instant::now(), None);
        let look = |(empty, seconds): &(bool, u64)| {
            let due;
            let now = begun + Duration::from_secs(*seconds);
            (spell, due) = next(spell, *empty, now, LIMIT);
            due
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn a_warning_at_four_fifths_then_one_report() {
        let looks = [0, 300, 2879, 2880, 3000, 3600, 4000, 90_000].map(|time| (true, time));
        let (warning, report) = (Some(Notice::Warning), Some(Notice::Report));
        let expected = [None, None, None, warning, None, report, None, None];
        assert_eq!(due(&looks), expected);
    }

    #[test]
    fn nothing_is_reported_without_a_warning_before() {
        let looks = [0, 9000, 9001].map(|time| (true, time));
        let expected = [None, Some(Notice::Warning), Some(Notice::Report)];
        assert_eq!(due(&looks), expected);
    }

    #[test]
    fn use_and_doubt_begin_anew() {
        let looks = [(true, 0), (false, 2000), (true, 2001), (true, 4000)];
        assert!(due(&looks).iter().all(Option::is_none));
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
