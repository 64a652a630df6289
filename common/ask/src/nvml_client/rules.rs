//! What makes a device busy, as it is sent to the process that asks NVML: from the
//! settings, and from where the asking process runs.

use serde::{Deserialize, Serialize};

/// What counts as busy; from the settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Memory in use beyond this many bytes is busy; none: the larger of 128 MiB and 1 %,
    /// in a container 64 MiB.
    pub idle_memory: Option<u64>,
    /// Names of programs that make no device busy.
    pub ignore_processes: Vec<String>,
    /// Where NVML lists no processes at all, memory alone decides.
    pub memory_decides: bool,
    /// Process ids here are not the host's, so others' processes may be hidden.
    pub container: bool,
}

/// What lets a device be free whose processes NVML does not list.
pub const MEMORY_DECIDES: &str = "setting `memory_decides` lets empty memory decide";

impl Rules {
    /// Whether a process of this name makes no device busy. The kernel keeps 15 bytes of
    /// a name.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignore_processes
            .iter()
            .any(|ignored| ignored.bytes().take(15).eq(name.bytes().take(15)))
    }
}
