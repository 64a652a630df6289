//! The verdict on a device from its witnesses: processes first, memory second. Pure.
//! What NVML will not tell is unknown, and unknown is never free.

use getgpu_common::nvml_client::rules::Rules;

use super::fault::{Fault, NOT_SUPPORTED};
use super::processes;
use getgpu_common::inventory::{Activity, Memory, Process};

const MIB: u64 = 1 << 20;
/// The most memory of an ignored process that is taken off: a desktop's or an MPS
/// server's own, not that of work done under its name.
const MOST_IGNORED: u64 = 1 << 30;

/// In a container the processes of others are hidden and memory is the only witness: a
/// bare CUDA context has 100 MiB and more, and 1 % of a large GPU would hide it.
fn floor(rules: &Rules, total: u64) -> u64 {
    let default = if rules.container {
        64 * MIB
    } else {
        (128 * MIB).max(total / 100)
    };
    rules.idle_memory.unwrap_or(default)
}

/// Bytes in use that ignored processes do not explain, if they are more than an idle
/// device has.
fn excess(rules: &Rules, memory: Memory, processes: &[Process]) -> Option<u64> {
    let ignored = processes
        .iter()
        .filter(|p| p.ignored)
        .filter_map(|p| p.memory);
    let ignored: u64 = ignored.map(|memory| memory.min(MOST_IGNORED)).sum();
    let used = memory.used.saturating_sub(ignored);
    (used > floor(rules, memory.total)).then_some(used)
}

/// What is asked about a device only when its memory would decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Do other compute instances share this GPU instance's memory?
    Neighbours,
    /// Is the GPU's memory a NUMA node of the host? Then the system uses it, too, and
    /// keeps pages of processes that have exited (nvml.h at nvmlMemory_t).
    NumaNode,
}

/// Whether a device is in use, and why; there is no reason if it is idle.
pub(super) struct Judgement {
    pub activity: Activity,
    pub reason: Option<String>,
}

impl Judgement {
    const IDLE: Self = Self {
        activity: Activity::Idle,
        reason: None,
    };

    fn busy(reason: String) -> Self {
        Self {
            activity: Activity::Busy,
            reason: Some(reason),
        }
    }

    fn unknown(reason: String) -> Self {
        Self {
            activity: Activity::Unknown,
            reason: Some(reason),
        }
    }
}

pub(super) fn judge(
    rules: &Rules,
    processes: Result<&[Process], &Fault>,
    memory: Result<Memory, &Fault>,
    mut ask: impl FnMut(Question) -> bool,
) -> Judgement {
    let processes = match processes {
        Ok(processes) => processes,
        Err(fault) => return Judgement::unknown(fault.to_string()),
    };
    if let Some(verdict) = by_processes(processes) {
        return verdict;
    }
    let memory = match memory {
        Ok(memory) => memory,
        // An integrated GPU has no memory of its own: where all processes are seen, they
        // alone decide.
        Err(fault) if fault.code == NOT_SUPPORTED && !rules.container => {
            return Judgement::IDLE;
        }
        Err(fault) => return Judgement::unknown(fault.to_string()),
    };
    let Some(used) = excess(rules, memory, processes) else {
        return Judgement::IDLE;
    };
    let text = format!("{} MiB in use and no process shown", used / MIB);
    if rules.container {
        return Judgement::unknown(format!(
            "{text}: processes outside this container are hidden"
        ));
    }
    if ask(Question::Neighbours) || ask(Question::NumaNode) {
        return Judgement::IDLE;
    }
    Judgement::busy(text)
}

/// What the processes alone tell; none if they leave it open.
fn by_processes(processes: &[Process]) -> Option<Judgement> {
    let using = |process: &&Process| !process.ignored && processes::is_pid(process.pid);
    if let Some(process) = processes.iter().find(using) {
        let name = process.name.as_deref().unwrap_or("?");
        let reason = format!("used by pid {} ({name})", process.pid);
        return Some(Judgement::busy(reason));
    }
    let nameless = processes.iter().find(|p| !processes::is_pid(p.pid))?;
    Some(Judgement::unknown(format!(
        "used by a process that NVML cannot name (pid {})",
        nameless.pid
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(container: bool) -> Rules {
        Rules {
            idle_memory: None,
            ignore_processes: vec!["nvidia-cuda-mps-server".into()],
            container,
        }
    }

    fn process(pid: u32, name: &str, memory: u64, rules: &Rules) -> Process {
        Process {
            pid,
            memory: Some(memory),
            name: Some(name.into()),
            ignored: rules.ignores(name),
        }
    }

    #[test]
    fn verdicts() {
        let plain = rules(false);
        let memory = |used| {
            Ok(Memory {
                total: 4864 * MIB,
                used: used * MIB,
            })
        };
        let verdict = |processes: &[Process], used, neighbours| {
            judge(&plain, Ok(processes), memory(used), |_| neighbours).activity
        };
        assert_eq!(verdict(&[], 44, false), Activity::Idle);
        assert_eq!(verdict(&[], 128, false), Activity::Idle);
        assert_eq!(verdict(&[], 129, false), Activity::Busy);
        assert_eq!(
            verdict(&[], 900, true),
            Activity::Idle,
            "a neighbour's memory"
        );
        assert_eq!(
            verdict(&[process(9, "python3", 0, &plain)], 12, false),
            Activity::Busy
        );
        let server = process(9, "nvidia-cuda-mps", 60 * MIB, &plain);
        assert_eq!(
            verdict(std::slice::from_ref(&server), 100, false),
            Activity::Idle
        );
        assert_eq!(
            verdict(std::slice::from_ref(&server), 189, false),
            Activity::Busy
        );
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        let (plain, hidden) = (rules(false), rules(true));
        let lost = Fault::new("DeviceGetMemoryInfo", 15);
        let memory = Memory {
            total: 4864 * MIB,
            used: 900 * MIB,
        };
        assert_eq!(
            judge(&plain, Err(&lost), Ok(memory), |_| false).activity,
            Activity::Unknown
        );
        assert_eq!(
            judge(&plain, Ok(&[]), Err(&lost), |_| false).activity,
            Activity::Unknown
        );
        assert_eq!(
            judge(&hidden, Ok(&[]), Ok(memory), |_| true).activity,
            Activity::Unknown
        );
    }

    #[test]
    fn one_percent_of_a_large_device_is_idle() {
        let memory = Memory {
            total: 140 << 30,
            used: 1 << 30,
        };
        assert_eq!(
            judge(&rules(false), Ok(&[]), Ok(memory), |_| false).activity,
            Activity::Idle
        );
        let strict = Rules {
            idle_memory: Some(100 * MIB),
            ..rules(false)
        };
        assert_eq!(
            judge(&strict, Ok(&[]), Ok(memory), |_| false).activity,
            Activity::Busy
        );
    }

    #[test]
    fn in_a_container_a_bare_context_is_enough() {
        let hidden = rules(true);
        let verdict = |rules: &Rules, used: u64| {
            judge(
                rules,
                Ok(&[]),
                Ok(Memory {
                    total: 140 << 30,
                    used: used * MIB,
                }),
                |_| true,
            )
            .activity
        };
        assert_eq!(
            [64, 65].map(|used| verdict(&hidden, used)),
            [Activity::Idle, Activity::Unknown]
        );
        let set = Rules {
            idle_memory: Some(300 * MIB),
            ..hidden
        };
        assert_eq!(
            [300, 301].map(|used| verdict(&set, used)),
            [Activity::Idle, Activity::Unknown]
        );
    }

    #[test]
    fn gpus_without_memory_of_their_own() {
        let (none, other) = (
            Fault::new("DeviceGetMemoryInfo", 3),
            Fault::new("DeviceGetMemoryInfo", 4),
        );
        assert_eq!(
            judge(&rules(false), Ok(&[]), Err(&none), |_| false).activity,
            Activity::Idle
        );
        assert_eq!(
            judge(&rules(true), Ok(&[]), Err(&none), |_| false).activity,
            Activity::Unknown
        );
        assert_eq!(
            judge(&rules(false), Ok(&[]), Err(&other), |_| false).activity,
            Activity::Unknown
        );
    }

    #[test]
    fn memory_that_the_system_uses_too_decides_nothing() {
        let memory = Memory {
            total: 96 << 30,
            used: 30 << 30,
        };
        let numa = |question| question == Question::NumaNode;
        assert_eq!(
            judge(&rules(false), Ok(&[]), Ok(memory), numa).activity,
            Activity::Idle
        );
        assert_eq!(
            judge(&rules(true), Ok(&[]), Ok(memory), numa).activity,
            Activity::Unknown,
            "nobody else is seen there"
        );
    }

    #[test]
    fn a_process_without_a_pid_is_unknown() {
        let plain = rules(false);
        let memory = Memory {
            total: 4864 * MIB,
            used: 0,
        };
        for pid in [0, (1 << 22) + 1, u32::MAX] {
            let nameless = Process {
                pid,
                memory: None,
                name: None,
                ignored: false,
            };
            let named = process(9, "python3", 0, &plain);
            assert_eq!(
                judge(
                    &plain,
                    Ok(std::slice::from_ref(&nameless)),
                    Ok(memory),
                    |_| true
                )
                .activity,
                Activity::Unknown
            );
            assert_eq!(
                judge(&plain, Ok(&[nameless, named]), Ok(memory), |_| true).activity,
                Activity::Busy
            );
        }
    }

    #[test]
    fn an_ignored_process_explains_a_gib_and_no_more() {
        let plain = rules(false);
        let server = process(9, "nvidia-cuda-mps-server", 30 << 30, &plain);
        let verdict = |used| {
            judge(
                &plain,
                Ok(std::slice::from_ref(&server)),
                Ok(Memory {
                    total: 40 << 30,
                    used,
                }),
                |_| false,
            )
            .activity
        };
        assert_eq!(
            [1 << 30, 30 << 30].map(verdict),
            [Activity::Idle, Activity::Busy]
        );
    }
}
