//! The verdict on a device from its witnesses: processes first, memory second. Pure.
//! What NVML will not tell is unknown, and unknown is never free.

use getgpu_ask::{MEMORY_DECIDES, Rules};
use getgpu_model::{GpuProcess, Memory, Usage};

use super::fault::{Fault, NOT_SUPPORTED};
use super::processes;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;
/// The most memory, in bytes, of an ignored process that is taken off: a desktop's or an
/// MPS server's own, not that of work done under its name.
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
fn excess(rules: &Rules, memory: Memory, processes: &[GpuProcess]) -> Option<u64> {
    let ignored = processes
        .iter()
        .filter(|p| p.ignored)
        .filter_map(|p| p.memory);
    let ignored: u64 = ignored.map(|memory| memory.min(MOST_IGNORED)).sum();
    let used = memory.used.saturating_sub(ignored);
    (used > floor(rules, memory.total)).then_some(used)
}

/// Whether a device is in use, and why; processes and memory are the caller's to add. Whether
/// others may use its memory is asked only where that would decide.
pub(super) fn judge(
    rules: &Rules,
    processes: Result<&[GpuProcess], &Fault>,
    memory: Result<Memory, &Fault>,
    shares_memory: impl FnOnce() -> bool,
) -> Usage {
    let processes = match processes {
        Ok(processes) => processes,
        Err(fault) if fault.absent() => {
            return Usage::unknown(format!("{fault}; {MEMORY_DECIDES}"));
        }
        Err(fault) => return Usage::unknown(fault.to_string()),
    };
    if let Some(verdict) = by_processes(processes) {
        return verdict;
    }
    let memory = match memory {
        Ok(memory) => memory,
        // An integrated GPU has no memory of its own: where all processes are seen, they
        // alone decide.
        Err(fault) if fault.code == NOT_SUPPORTED && !rules.container => {
            return Usage::idle();
        }
        Err(fault) => return Usage::unknown(fault.to_string()),
    };
    let Some(used) = excess(rules, memory, processes) else {
        return Usage::idle();
    };
    let text = format!("{} MiB in use and no process shown", used / MIB);
    if rules.container {
        return Usage::unknown(format!(
            "{text}: processes outside this container are hidden"
        ));
    }
    if shares_memory() {
        return Usage::idle();
    }
    Usage::busy(text)
}

/// What the processes alone tell; none if they leave it open.
fn by_processes(processes: &[GpuProcess]) -> Option<Usage> {
    if let Some(process) = processes
        .iter()
        .find(|process| !process.ignored && processes::is_pid(process.pid))
    {
        let name = process.name.as_deref().unwrap_or("?");
        let reason = format!("used by pid {} ({name})", process.pid);
        return Some(Usage::busy(reason));
    }
    let nameless = processes.iter().find(|p| !processes::is_pid(p.pid))?;
    Some(Usage::unknown(format!(
        "used by a process that NVML cannot name (pid {})",
        nameless.pid
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Activity::{Busy, Idle, Unknown};
    use getgpu_model::Activity;

    const GIB: u64 = 1 << 30;
    const NO: fn() -> bool = || false;
    const YES: fn() -> bool = || true;

    fn rules(container: bool, idle_memory: Option<u64>) -> Rules {
        Rules {
            idle_memory,
            ignore_processes: vec!["nvidia-cuda-mps-server".into()],
            memory_decides: false,
            container,
        }
    }

    fn process(name: &str, memory: u64) -> Vec<GpuProcess> {
        vec![GpuProcess {
            pid: 9,
            memory: Some(memory),
            name: Some(name.into()),
            ignored: rules(false, None).ignores(name),
        }]
    }

    /// As NVML tells of one it cannot name.
    fn nameless(pid: u32) -> GpuProcess {
        GpuProcess {
            pid,
            memory: None,
            name: None,
            ignored: false,
        }
    }

    #[test]
    fn verdicts() {
        let (plain, hidden) = (rules(false, None), rules(true, None));
        let strict = rules(false, Some(100 * MIB));
        let set = rules(true, Some(300 * MIB));
        let (none, python) = (vec![], process("python3", 0));
        let server = process("nvidia-cuda-mps", 60 * MIB);
        let desktop = process("nvidia-cuda-mps-server", 30 * GIB);
        let slice = 4864 * MIB;
        #[rustfmt::skip]
        let cases = [
            (&plain, &none, 44 * MIB, slice, NO, Idle),
            (&plain, &none, 128 * MIB, slice, NO, Idle),
            (&plain, &none, 129 * MIB, slice, NO, Busy),
            // A neighbour's memory.
            (&plain, &none, 900 * MIB, slice, YES, Idle),
            (&hidden, &none, 900 * MIB, slice, YES, Unknown),
            (&plain, &python, 12 * MIB, slice, NO, Busy),
            (&plain, &server, 100 * MIB, slice, NO, Idle),
            (&plain, &server, 189 * MIB, slice, NO, Busy),
            // An ignored process explains a GiB and no more.
            (&plain, &desktop, GIB, 40 * GIB, NO, Idle),
            (&plain, &desktop, 30 * GIB, 40 * GIB, NO, Busy),
            // One percent of a large device is idle.
            (&plain, &none, GIB, 140 * GIB, NO, Idle),
            (&strict, &none, GIB, 140 * GIB, NO, Busy),
            // In a container a bare context is enough.
            (&hidden, &none, 64 * MIB, 140 * GIB, YES, Idle),
            (&hidden, &none, 65 * MIB, 140 * GIB, YES, Unknown),
            (&set, &none, 300 * MIB, 140 * GIB, YES, Idle),
            (&set, &none, 301 * MIB, 140 * GIB, YES, Unknown),
            // Memory that the system uses, too; in a container no other process is seen.
            (&plain, &none, 30 * GIB, 96 * GIB, YES, Idle),
            (&hidden, &none, 30 * GIB, 96 * GIB, YES, Unknown),
        ];
        for (row, (rules, processes, used, total, answer, activity)) in cases.iter().enumerate() {
            let (total, used) = (*total, *used);
            let usage = judge(rules, Ok(processes), Ok(Memory { total, used }), answer);
            assert_eq!(usage.activity, *activity, "row {row}");
        }
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        let fault = |code| Fault::new("DeviceGetMemoryInfo", code);
        let (total, used) = (4864 * MIB, 900 * MIB);
        let of_processes = fault(15);
        let usage = judge(
            &rules(false, None),
            Err(&of_processes),
            Ok(Memory { total, used }),
            NO,
        );
        assert_eq!(usage.activity, Unknown);
        // A GPU without memory of its own does not tell it, either.
        for (container, code, activity) in [
            (false, 15, Unknown),
            (false, 4, Unknown),
            (false, NOT_SUPPORTED, Idle),
            (true, NOT_SUPPORTED, Unknown),
        ] {
            let usage = judge(&rules(container, None), Ok(&[]), Err(&fault(code)), NO);
            assert_eq!(usage.activity, activity, "{container} {code}");
        }
    }

    #[test]
    fn a_process_without_a_pid_is_unknown() {
        let (total, used) = (4864 * MIB, 0);
        for pid in [0, (1 << 22) + 1, u32::MAX] {
            let mut processes = vec![nameless(pid)];
            for activity in [Unknown, Busy] {
                let memory = Ok(Memory { total, used });
                let usage = judge(&rules(false, None), Ok(&processes), memory, YES);
                assert_eq!(usage.activity, activity, "{pid}");
                processes.extend(process("python3", 0));
            }
        }
    }
}
