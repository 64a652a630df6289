//! A memory cgroup, of version 1 or 2, with a limit that the processes in it exceed. It
//! is removed when it goes.

use std::fs;
use std::path::{Path, PathBuf};

/// The limit: a few small processes fit.
const LIMIT: &str = "16777216";

/// A cgroup of this process's own.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    events: &'static str,
}

impl Group {
    /// None where no such cgroup can be made.
    pub(crate) fn new() -> Option<Self> {
        let name = format!("getgpu-soak-{}", std::process::id());
        let versions = [
            (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.oom_control",
            ),
            ("/sys/fs/cgroup", "memory.max", "memory.events"),
        ];
        versions.into_iter().find_map(|(above, limit, events)| {
            let above = Path::new(above);
            let directory = above.join(&name);
            // Version 2 has it where the memory controller is on for children.
            fs::create_dir(&directory).ok()?;
            let group = Self { directory, events };
            fs::write(group.directory.join(limit), LIMIT).ok()?;
            Some(group)
        })
    }

    /// A process that writes 0 here is in it.
    pub(crate) fn entry(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// How many processes the kernel killed in it.
    pub(crate) fn kills(&self) -> u64 {
        let events = fs::read_to_string(self.directory.join(self.events)).unwrap_or_default();
        let count = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}
