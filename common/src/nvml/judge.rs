//! The verdict on a device from its witnesses: processes first, memory second. Pure.
//! What NVML will not tell is unknown, and unknown is never free.

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use crate::inventory::{Activity, Memory, Process};

/// What counts as busy; from the settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Memory in use beyond this many bytes is busy; none: the larger of 128 MiB and 1 %.
    pub idle_memory: Option<u64>,
    /// Names of programs that make no device busy.
    pub ignore_processes: Vec<String>,
    /// Process ids here are not the host's, so others' processes may be hidden.
    pub container: bool,
}

impl Rules {
    /// Whether a process of this name makes no device busy. The kernel keeps 15 bytes of a name.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignore_processes.iter().any(|ignored| ignored.bytes().take(15).eq(name.bytes().take(15)))
    }

    fn floor(&self, total: u64) -> u64 {
        self.idle_memory.unwrap_or((128 << 20).max(total / 100))
    }

    /// Bytes in use that are not explained by ignored processes, if they are more than an idle device has.
    pub(super) fn excess(&self, memory: Memory, processes: &[Process]) -> Option<u64> {
        let ignored: u64 = processes.iter().filter(|p| p.ignored).filter_map(|p| p.memory).sum();
        let used = memory.used.saturating_sub(ignored);
        (used > self.floor(memory.total)).then_some(used)
    }
}

/// The verdict; `neighbours` tells whether other compute instances share this GPU instance's memory.
pub(super) fn judge(
    rules: &Rules,
    processes: Result<&[Process], &Fault>,
    memory: Result<Memory, &Fault>,
    neighbours: impl FnOnce() -> bool,
) -> (Activity, Option<String>) {
    let processes = match processes {
        Ok(processes) => processes,
        Err(fault) => return (Activity::Unknown, Some(fault.to_string())),
    };
    if let Some(process) = processes.iter().find(|p| !p.ignored) {
        let name = process.name.as_deref().unwrap_or("?");
        return (Activity::Busy, Some(format!("used by pid {} ({name})", process.pid)));
    }
    let memory = match memory {
        Ok(memory) => memory,
        Err(fault) => return (Activity::Unknown, Some(fault.to_string())),
    };
    let Some(used) = rules.excess(memory, processes) else { return (Activity::Idle, None) };
    let text = format!("{} MiB in use and no process shown", used >> 20);
    match (neighbours(), rules.container) {
        // The memory is the whole GPU instance's: a neighbour's, or, where processes are hidden, who knows whose.
        (true, true) => (Activity::Unknown, Some(text)),
        (true, false) => (Activity::Idle, None),
        (false, _) => (Activity::Busy, Some(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(container: bool) -> Rules {
        Rules { idle_memory: None, ignore_processes: vec!["nvidia-cuda-mps-server".into()], container }
    }

    fn process(pid: u32, name: &str, memory: u64, rules: &Rules) -> Process {
        Process { pid, memory: Some(memory), name: Some(name.into()), ignored: rules.ignores(name) }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn verdicts() {
        let plain = rules(false);
        let memory = |used| Ok(Memory { total: 4864 * MIB, used: used * MIB });
        let verdict =
            |processes: &[Process], used, neighbours| judge(&plain, Ok(processes), memory(used), || neighbours).0;
        assert_eq!(verdict(&[], 44, false), Activity::Idle);
        assert_eq!(verdict(&[], 128, false), Activity::Idle);
        assert_eq!(verdict(&[], 129, false), Activity::Busy);
        assert_eq!(verdict(&[], 900, true), Activity::Idle, "a neighbour's memory");
        assert_eq!(verdict(&[process(9, "python3", 0, &plain)], 12, false), Activity::Busy);
        let server = process(9, "nvidia-cuda-mps", 60 * MIB, &plain);
        assert_eq!(verdict(std::slice::from_ref(&server), 100, false), Activity::Idle);
        assert_eq!(verdict(std::slice::from_ref(&server), 189, false), Activity::Busy);
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        let (plain, hidden) = (rules(false), rules(true));
        let lost = Fault::new("DeviceGetMemoryInfo", 15);
        let memory = Memory { total: 4864 * MIB, used: 900 * MIB };
        assert_eq!(judge(&plain, Err(&lost), Ok(memory), || false).0, Activity::Unknown);
        assert_eq!(judge(&plain, Ok(&[]), Err(&lost), || false).0, Activity::Unknown);
        assert_eq!(judge(&hidden, Ok(&[]), Ok(memory), || true).0, Activity::Unknown);
    }

    #[test]
    fn one_percent_of_a_large_device_is_idle() {
        let memory = Memory { total: 140 << 30, used: 1 << 30 };
        assert_eq!(judge(&rules(false), Ok(&[]), Ok(memory), || false).0, Activity::Idle);
        let strict = Rules { idle_memory: Some(100 * MIB), ..rules(false) };
        assert_eq!(judge(&strict, Ok(&[]), Ok(memory), || false).0, Activity::Busy);
    }
}
