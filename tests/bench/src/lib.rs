//! Contenders timed against each other: all in turn, round by round, so that whatever
//! else the machine does falls on all of them. The first one is the yardstick, and every
//! median is told as a ratio to its median.
#![allow(clippy::print_stdout, reason = "its output is the table")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One of those that are compared: a process that is run again and again.
pub struct Contender {
    name: String,
    command: Command,
    times: Vec<Duration>,
}

impl Contender {
    /// A command whose output nobody reads.
    #[must_use]
    pub fn new(name: &str, mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            name: name.to_owned(),
            command,
            times: Vec::new(),
        }
    }

    fn run(&mut self) -> Duration {
        let began = Instant::now();
        let status = self.command.status();
        let time = began.elapsed();
        assert!(
            status.as_ref().is_ok_and(std::process::ExitStatus::success),
            "{}: {status:?}",
            self.name
        );
        time
    }

    fn sort(&mut self) -> (Duration, Duration) {
        self.times.sort_unstable();
        let at = |place: usize| self.times.get(place).copied().unwrap_or_default();
        (at(0), at(self.times.len() / 2))
    }
}

/// Runs all so many times and prints minimum, median and ratio of each.
///
/// # Panics
///
/// If one of them fails: a time of something that did not work is no figure.
pub fn race(rounds: usize, contenders: &mut [Contender]) {
    for round in 0..=rounds {
        for contender in &mut *contenders {
            let time = contender.run();
            // The first round only warms the caches.
            if round > 0 {
                contender.times.push(time);
            }
        }
    }
    let mut base = None;
    for contender in contenders {
        let (least, median) = contender.sort();
        let base = *base.get_or_insert(median);
        println!(
            "{:<34} min {:>9.3} ms  median {:>9.3} ms  x {:>6.2}",
            contender.name,
            least.as_secs_f64() * 1e3,
            median.as_secs_f64() * 1e3,
            median.as_secs_f64() / base.as_secs_f64()
        );
    }
}
