//! How long NVML may take: in all (`nvml_timeout`), and for one question about one GPU, so
//! that a GPU that hangs leaves time for the others. Pure.

use std::time::{Duration, Instant};

/// One question about a GPU may take this part of the limit.
const QUESTION: u32 = 6;
/// The first one may take this part: it attaches the GPU, which takes seconds where
/// persistence mode is off.
const FIRST_QUESTION: u32 = 5;
/// This part of the limit is kept for closing the library.
const CLOSING: u32 = 6;
/// This part is kept for questions about the GPUs that are listed by then: where all of them
/// are slow, one of those is chosen.
const CHOOSING: u32 = 3;

/// The limits of a session that began at some instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    began: Instant,
    /// All that NVML may take.
    pub(crate) all: Duration,
}

/// Whether a session has asked about a GPU before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    First,
    Again,
}

/// What a session has seen of its GPUs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GpuTimes {
    /// How many have hung.
    pub(crate) hung: u32,
    /// How long one has taken at most for an answer; none yet: zero.
    pub(crate) longest: Duration,
}

/// What a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It lists a GPU.
    List,
    /// It is about devices that are listed, or looks at one GPU alone.
    Choose,
}

impl Limits {
    /// Those of a session that begins now.
    pub(crate) fn from(now: Instant, all: Duration) -> Self {
        Self { began: now, all }
    }

    /// When the session ends.
    pub(crate) fn deadline(&self) -> Instant {
        self.began + self.all
    }

    /// How long a question about a GPU may take now; none if there is no time left for one.
    /// Behind the second GPU that `hung` in this session each has half as long as the one
    /// before, so that together they leave time for those that are well. `longest`: what a GPU has
    /// taken in this session at most.
    pub(crate) fn of_question(
        &self,
        purpose: Purpose,
        touch: Touch,
        GpuTimes { hung, longest }: GpuTimes,
        now: Instant,
    ) -> Option<Duration> {
        let kept = match purpose {
            Purpose::List => CHOOSING,
            Purpose::Choose => CLOSING,
        };
        let part = match touch {
            Touch::First => FIRST_QUESTION,
            Touch::Again => QUESTION,
        };
        let left = (self.deadline() - self.all / kept).saturating_duration_since(now);
        let whole = self.all / part / 2_u32.saturating_pow(hung.saturating_sub(1));
        // A GPU that is slow must not be taken for one that hangs for lack of time: then the
        // process that has attached the others would be given up. Those of a node take about as long
        // as each other.
        let least = match purpose {
            Purpose::List if longest.is_zero() => whole,
            Purpose::List => whole.min(longest * 3 / 2),
            Purpose::Choose => Duration::from_nanos(1),
        };
        (left >= least).then(|| left.min(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_has_a_part_of_the_limit() {
        let (began, seconds) = (Instant::now(), Duration::from_secs);
        let limits = Limits::from(began, seconds(30));
        let at = |passed| began + seconds(passed);
        #[rustfmt::skip]
        let cases = [
            (Purpose::List, Touch::First, 0, Some(6)), (Purpose::List, Touch::Again, 0, Some(5)),
            (Purpose::List, Touch::First, 14, Some(6)), (Purpose::List, Touch::First, 15, None),
            (Purpose::List, Touch::Again, 15, Some(5)), (Purpose::List, Touch::Again, 16, None),
            (Purpose::Choose, Touch::First, 18, Some(6)), (Purpose::Choose, Touch::Again, 20, Some(5)),
            (Purpose::Choose, Touch::Again, 24, Some(1)),
            (Purpose::Choose, Touch::First, 25, None), (Purpose::Choose, Touch::Again, 40, None),
        ];
        for (purpose, touch, passed, limit) in cases {
            let found = limits.of_question(purpose, touch, GpuTimes::default(), at(passed));
            assert_eq!(
                found,
                limit.map(seconds),
                "{purpose:?} {touch:?} after {passed} s"
            );
        }
        assert_eq!(limits.deadline(), at(30));
    }

    #[test]
    fn however_many_gpus_hang_time_is_left_to_list_the_others() {
        let began = Instant::now();
        let limits = Limits::from(began, Duration::from_secs(30));
        let mut now = began;
        for hung in 0..40 {
            let seen = GpuTimes {
                hung,
                ..GpuTimes::default()
            };
            let limit = limits.of_question(Purpose::List, Touch::First, seen, now);
            now += limit.unwrap_or_else(|| panic!("GPU {hung} is not asked"));
        }
        assert!(now < began + Duration::from_secs(20));
    }

    /// 29 ms to some seconds each, without persistence mode.
    #[test]
    fn gpus_that_are_slow_to_attach_are_asked_while_there_is_time_for_one_more() {
        let began = Instant::now();
        let limits = Limits::from(began, Duration::from_secs(30));
        for (each, listed) in [(600, 32), (1200, 16), (2000, 9), (5000, 3)] {
            let longest = Duration::from_millis(each);
            let mut now = began;
            let seen = GpuTimes { hung: 0, longest };
            let ask = |now| limits.of_question(Purpose::List, Touch::First, seen, now);
            for gpu in 0..listed {
                assert!(ask(now).is_some(), "GPU {gpu} of {each} ms each");
                now += longest;
            }
            assert!(now < began + Duration::from_secs(20));
            assert_eq!(ask(now), None, "{each} ms");
        }
    }
}
