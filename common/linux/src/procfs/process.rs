//! A process by its number, its start and its name. The start tells it from another process
//! that has got the same number since.

use super::Stat;

/// A process that is known again by its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id, as this process's /proc shows it.
    pub pid: i32,
    /// Start after boot, in clock ticks.
    pub start: u64,
    /// The name of the program (at most 15 bytes).
    pub name: String,
}

impl From<&Stat> for Process {
    fn from(stat: &Stat) -> Self {
        Self {
            pid: stat.pid,
            start: stat.start,
            name: stat.comm.clone(),
        }
    }
}

impl Process {
    /// Whether it is a process that can be watched.
    pub fn seen(&self) -> bool {
        self.start > 0
    }
}
