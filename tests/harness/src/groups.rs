//! Groups of tests in one binary that must not overlap: tests of one group run beside each
//! other, and another group begins when they have finished. For tests that fill the
//! machine or whose figures need it.

use std::sync::{Condvar, Mutex, PoisonError};

/// Which group runs, and how many of its tests.
#[derive(Debug, Default)]
pub struct Groups {
    running: Mutex<(&'static str, usize)>,
    left: Condvar,
}

/// A test of the running group; it leaves the group when this is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Groups);

impl Groups {
    /// No group runs yet.
    pub const fn new() -> Self {
        Self {
            running: Mutex::new(("", 0)),
            left: Condvar::new(),
        }
    }

    /// Waits until no other group runs. `group` is best the test's `module_path!()`.
    pub fn enter(&self, group: &'static str) -> Turn<'_> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = self
            .left
            .wait_while(running, |(name, tests)| *tests > 0 && *name != group)
            .unwrap_or_else(PoisonError::into_inner);
        *running = (group, running.1 + 1);
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut running = self
            .0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        running.1 -= 1;
        self.0.left.notify_all();
    }
}
