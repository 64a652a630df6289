//! Which GPUs do not answer, as far as one program knows: they are left alone for a while, so
//! that none of its calls waits for the same GPU twice. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So long a GPU that did not answer is left alone; each further time twice as long.
const PAUSE: Duration = Duration::from_secs(60);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
struct SilentGpu {
    reason: String,
    pause: Duration,
    ask_again: Instant,
}

/// The GPUs that did not answer.
#[derive(Clone, Debug, Default)]
pub struct SilentGpus {
    gpus: BTreeMap<u32, SilentGpu>,
}

impl SilentGpus {
    /// Notes that a GPU did not answer, and why.
    pub(crate) fn note(&mut self, gpu: u32, reason: String, now: Instant) {
        let before = self.gpus.get(&gpu).map(|silent| silent.pause * 2);
        let pause = before.unwrap_or(PAUSE).min(LONGEST);
        let silent = SilentGpu {
            reason,
            pause,
            ask_again: now + pause,
        };
        self.gpus.insert(gpu, silent);
    }

    /// Why a GPU is to be left alone, if it is.
    pub(crate) fn reason(&self, gpu: u32, now: Instant) -> Option<&str> {
        let silent = self.gpus.get(&gpu);
        let silent = silent.filter(|silent| now < silent.ask_again);
        silent.map(|silent| silent.reason.as_str())
    }

    /// A GPU answers again.
    pub(crate) fn forget(&mut self, gpu: u32) {
        self.gpus.remove(&gpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_gpu_is_asked_ever_more_rarely() {
        let (mut silent, start) = (SilentGpus::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(silent.reason(3, start), None);
        for (noted, until) in [
            (0, 60),
            (60, 180),
            (180, 420),
            (420, 900),
            (900, 1500),
            (1500, 2100),
        ] {
            silent.note(3, "late".into(), at(noted));
            assert_eq!(silent.reason(3, at(until - 1)), Some("late"), "{until}");
            assert_eq!(silent.reason(3, at(until)), None, "{until}");
            assert_eq!(silent.reason(2, at(noted)), None, "another GPU");
        }
        silent.forget(3);
        silent.note(3, "late".into(), at(3000));
        assert_eq!(
            silent.reason(3, at(3060)),
            None,
            "it had answered in between"
        );
    }
}
