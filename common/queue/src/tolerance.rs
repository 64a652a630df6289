//! How long a waiter bears with a node that is worked on: NVML that fails, a driver that is gone,
//! devices that are made anew. Counted in time and not in attempts, with growing pauses. Pure.

use std::time::{Duration, Instant};

use getgpu_model::{Failure, Kind};
use getgpu_settings::Wait;

/// A wait without a limit ends after failures of this length without a break: a driver that is
/// replaced takes some minutes, and one that hangs never comes back.
const GIVE_UP: Duration = Duration::from_secs(600);
/// Before the first new attempt, and the longest pause between two; each is twice the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Attempts that have failed without one between them that NVML answered.
#[derive(Debug)]
struct Failing {
    since: Instant,
    pause: Duration,
    again: Instant,
    failure: Failure,
}

/// What the last attempts came to.
#[derive(Debug, Default)]
pub(crate) struct Tolerance {
    failing: Option<Failing>,
}

impl Tolerance {
    /// NVML has answered.
    pub(crate) fn recover(&mut self) {
        self.failing = None;
    }

    /// Bears with a failure that may pass, in a wait with this limit or without one; gives when the
    /// next attempt is due.
    ///
    /// # Errors
    ///
    /// The failures have lasted for too long.
    pub(crate) fn bear(
        &mut self,
        failure: Failure,
        wait: Wait,
        now: Instant,
    ) -> Result<Instant, Failure> {
        let before = self.failing.take();
        // Where a device is missing, NVML has answered.
        let is_silent = |failure: &Failure| failure.kind != Kind::NoDevice;
        let silent = before.as_ref().filter(|last| is_silent(&last.failure));
        let since = silent.map_or(now, |failing| failing.since);
        if wait.0.is_none()
            && is_silent(&failure)
            && now.saturating_duration_since(since) >= GIVE_UP
        {
            return Err(failure);
        }
        let pause = before.map_or(FIRST_PAUSE, |failing| failing.pause * 2);
        let pause = pause.min(LONGEST_PAUSE);
        let failing = self.failing.insert(Failing {
            since,
            pause,
            again: now + pause,
            failure,
        });
        Ok(failing.again)
    }

    /// Whether NVML is left alone at this moment.
    pub(crate) fn pauses(&self, now: Instant) -> bool {
        self.failing
            .as_ref()
            .is_some_and(|failing| now < failing.again)
    }

    /// Why the last attempt failed; none if it did not.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failing.as_ref().map(|failing| &failing.failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: Wait = Wait(None);

    fn failure() -> Failure {
        Failure::new(Kind::Nvml, "why")
    }

    #[test]
    fn pauses_grow_up_to_some_seconds_and_begin_anew_after_an_answer() {
        let (mut tolerance, mut now) = (Tolerance::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let again = tolerance.bear(failure(), NO_LIMIT, now).unwrap();
            pauses.push((again - now).as_millis());
            assert!(tolerance.pauses(now) && !tolerance.pauses(again));
            now = again;
        }
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000],
            "milliseconds"
        );
        tolerance.recover();
        assert!(tolerance.failure().is_none() && !tolerance.pauses(now));
        let again = tolerance.bear(failure(), NO_LIMIT, now).unwrap();
        assert_eq!(again - now, FIRST_PAUSE);
    }

    #[test]
    fn ten_minutes_without_an_answer_end_a_wait_without_a_limit() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut tolerance = Tolerance::default();
        for second in [0, 1, 300, 599] {
            assert!(tolerance.bear(failure(), NO_LIMIT, at(second)).is_ok());
        }
        assert!(tolerance.bear(failure(), Wait::NO, at(700)).is_ok());
        let ended = tolerance.bear(failure(), NO_LIMIT, at(701));
        assert_eq!(ended.unwrap_err(), failure());
        let missing = Failure::new(Kind::NoDevice, "why");
        for second in [702, 5000, 9000] {
            let borne = tolerance.bear(missing.clone(), NO_LIMIT, at(second));
            assert!(borne.is_ok(), "NVML answers");
        }
        assert!(tolerance.bear(failure(), NO_LIMIT, at(9001)).is_ok());
        let mut answered = Tolerance::default();
        for second in [0, 599] {
            assert!(answered.bear(failure(), NO_LIMIT, at(second)).is_ok());
        }
        answered.recover();
        assert!(answered.bear(failure(), NO_LIMIT, at(700)).is_ok());
    }
}
