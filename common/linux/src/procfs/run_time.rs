//! How long something took without the time in which a process waited for a processor: what a busy
//! machine takes is no other process's fault.

use std::time::{Duration, Instant};

use super::file::whole;

/// How long `pid` ("self" for this process) has waited for a processor since it began; nothing where
/// the kernel does not count that (sched-stats.rst: the second number, in nanoseconds).
pub fn run_delay(pid: &str) -> Duration {
    let text = whole(&format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let waited = text.split_ascii_whitespace().nth(1);
    Duration::from_nanos(waited.and_then(|number| number.parse().ok()).unwrap_or(0))
}

/// Measures time in which this process ran, or waited for something else than a processor.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Instant,
    delay: Duration,
}

impl Stopwatch {
    /// From now on.
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            delay: run_delay("self"),
        }
    }

    /// How long that was until now.
    pub fn elapsed(&self) -> Duration {
        let waited = run_delay("self").saturating_sub(self.delay);
        self.began.elapsed().saturating_sub(waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_something_else_counts() {
        let watch = Stopwatch::start();
        let time = Duration::from_millis(30);
        std::thread::sleep(time);
        // The kernel counts for the first thread of this process, which may wait meanwhile.
        assert!(watch.elapsed() <= watch.began.elapsed());
        assert_eq!(run_delay("0"), Duration::ZERO);
    }
}
