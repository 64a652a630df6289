//! The record of a soak: a line of the CSV file every five seconds and at quiet moments.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use harness::{Sandbox, wait};

use super::sample::{HEADER, Sample};

/// Writes the record; threads share it.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) over: AtomicBool,
    began: Instant,
    file: Mutex<File>,
    disturbance: Mutex<&'static str>,
    launches: AtomicU64,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox, path: &Path) -> Self {
        let mut file = File::create(path).expect("the record");
        writeln!(file, "{HEADER}").expect("the record");
        Self {
            sandbox,
            over: AtomicBool::new(false),
            began: Instant::now(),
            file: Mutex::new(file),
            disturbance: Mutex::new("calm"),
            launches: AtomicU64::new(0),
        }
    }

    /// Which disturbance goes on from now.
    pub(crate) fn say(&self, disturbance: &'static str) {
        *self
            .disturbance
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = disturbance;
    }

    pub(crate) fn count_launch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// A line.
    pub(crate) fn write(&self, sample: &Sample, quiet: bool) {
        let what = *self
            .disturbance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let seconds = self.elapsed().as_secs_f64();
        let line = sample.line(seconds, what, quiet, self.launches());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{line}").expect("the record");
    }

    /// A line every five seconds.
    pub(crate) fn until_over(&self) {
        while !wait::holds_within(Duration::from_secs(5), || self.over.load(Ordering::Relaxed)) {
            self.write(&Sample::take(self.sandbox), false);
        }
    }
}

/// Says that the threads beside this one have to end, also after a panic.
#[derive(Debug)]
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
