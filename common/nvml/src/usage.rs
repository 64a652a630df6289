//! Who uses a device: its process lists, its memory, and the verdict from both. Asks as
//! few calls as the verdict needs; people who want to see everything ask with full
//! detail.

use std::rc::Rc;

use nvml_wrapper::Device as Handle;

use super::fault::{Fault, with_retries};
use super::health;
use super::judge::judge;
use super::memory;
use super::processes::ProcessEntry;
use super::raw::{self, ProcessList};
use super::session::Session;
use getgpu_ask::{NvmlQuestion, Rules};
use getgpu_linux::procfs;
use getgpu_model::{Activity, Detail, GpuProcess, Health, Memory, Usage, mig_profile};

/// The device whose use is asked for.
struct Questioned<'n> {
    handle: Rc<Handle<'n>>,
    gpu: u32,
    slot: Option<u32>,
    detail: Detail,
}

impl Questioned<'_> {
    fn wants_all(&self) -> bool {
        self.detail >= Detail::Full
    }
}

/// The use of one device, and its health where that can decide or everything is wanted. A GPU
/// that a call found lost, or in need of a reset, is not well, whatever was asked.
pub(super) fn usage(
    session: &mut Session<'_>,
    rules: &Rules,
    device: &NvmlQuestion,
    detail: Detail,
) -> Result<Usage, Fault> {
    let place = session.place(device)?;
    let mut usage = use_of(session, rules, device, detail).or_else(|fault| {
        let ailment = health::of_fault(&fault).ok_or(fault)?;
        Ok(Usage::idle().with(Health {
            ailments: vec![ailment],
            ..Health::default()
        }))
    })?;
    let is_asked = usage.activity == Activity::Idle && usage.health.ailments.is_empty();
    if is_asked || detail >= Detail::Full {
        usage = usage.with(health::health(session, place, detail));
    }
    if usage.activity == Activity::Idle
        && usage.health.is_exclusive()
        && let Some(reason) = server_of_another_user(&usage.processes)
    {
        usage.activity = Activity::Busy;
        usage.reason = Some(reason);
    }
    Ok(usage)
}

/// Where one program at a time may compute, an MPS server is that program, and it serves its own
/// user alone, unless it is root's: CUDA fails with 46 for all others.
fn server_of_another_user(processes: &[GpuProcess]) -> Option<String> {
    let caller = nix::unistd::geteuid().as_raw();
    let servers = processes.iter().filter(|process| {
        process
            .name
            .as_deref()
            .is_some_and(|name| name.starts_with(MPS))
    });
    let mut owners = servers.filter_map(|server| {
        let uid = procfs::euid(server.pid as i32)?;
        Some((uid, server.pid))
    });
    let (uid, pid) = owners.find(|(uid, _)| ![0, caller].contains(uid))?;
    Some(format!(
        "in compute mode Exclusive_Process the MPS server of uid {uid} (pid {pid}) has it"
    ))
}

/// The use of one device.
fn use_of(
    session: &mut Session<'_>,
    rules: &Rules,
    device: &NvmlQuestion,
    detail: Detail,
) -> Result<Usage, Fault> {
    let (gpu, slot) = session.place(device)?;
    let asked = &Questioned {
        handle: session.handle(gpu, slot)?,
        gpu,
        slot,
        detail,
    };
    let processes = match processes(session, rules, asked) {
        Err(fault) if rules.memory_decides && fault.absent() => Ok(Vec::new()),
        told => told,
    };
    if let Err(fault) = &processes
        && health::of_fault(fault).is_some()
    {
        return Err(fault.clone());
    }
    let scanned = asked
        .wants_all()
        .then(|| session.scanned_memory(gpu, slot))
        .flatten();
    let judged = |session: &mut Session<'_>, memory: &Result<Memory, Fault>| {
        judge(
            rules,
            processes.as_deref(),
            memory.as_ref().copied(),
            || shares_memory(session, asked),
        )
    };
    let busy = processes
        .as_ref()
        .is_ok_and(|list| list.iter().any(|p| !p.ignored));
    // A process is proof enough: memory is asked for only where it can still decide, or
    // is wanted.
    let (memory, verdict) = if !asked.wants_all() && (processes.is_err() || busy) {
        let nothing = Memory { total: 0, used: 0 };
        (None, judged(session, &Ok(nothing)))
    } else {
        let mut memory = scanned.map_or_else(|| memory::memory(session.nvml, &asked.handle), Ok);
        let mut verdict = judged(session, &memory);
        // The scan was a moment before the process list: a process that has exited since
        // must not look like one that is hidden.
        if scanned.is_some() && verdict.activity != Activity::Idle && !busy {
            memory = memory::memory(session.nvml, &asked.handle);
            verdict = judged(session, &memory);
        }
        if let Err(fault) = &memory
            && health::of_fault(fault).is_some()
        {
            return Err(fault.clone());
        }
        (memory.ok(), verdict)
    };
    Ok(Usage {
        processes: processes.unwrap_or_default(),
        memory,
        ..verdict
    })
}

/// Whether others may use a device's memory: another compute instance of its GPU instance, or
/// the system, where it is a NUMA node of the host, which also keeps pages of processes that
/// have exited (nvml.h at nvmlMemory_t).
fn shares_memory(session: &mut Session<'_>, asked: &Questioned<'_>) -> bool {
    let own = asked
        .slot
        .and_then(|slot| session.instance(asked.gpu, slot));
    own.is_some_and(|own| is_shared(session, asked.gpu, own))
        || session
            .handle(asked.gpu, None)
            .is_ok_and(|gpu| raw::is_numa_node(session.nvml, &gpu))
}

fn processes<'n>(
    session: &mut Session<'n>,
    rules: &Rules,
    asked: &Questioned<'n>,
) -> Result<Vec<GpuProcess>, Fault> {
    let nvml = session.nvml;
    let list = |list| with_retries(|| raw::processes(nvml, &asked.handle, list));
    let mut entries = list(ProcessList::Compute)?;
    for (other, decides) in others(session, asked, &entries) {
        match list(other) {
            Ok(more) => entries.extend(more),
            // A list that is there and not told may hold a process: that is not known to
            // be idle.
            Err(fault) if decides && !fault.absent() => return Err(fault),
            Err(_) => {}
        }
    }
    // It is not certain that the handle of one of two compute instances lists only its own.
    if let Some(slot) = asked.slot
        && entries.iter().any(|entry| entry.instance.is_some())
        && let Some(own) = session.instance(asked.gpu, slot)
    {
        entries.retain(|entry| entry.instance.is_none_or(|instance| instance == own));
    }
    entries.sort_by_key(|entry| entry.pid);
    entries.dedup_by_key(|entry| entry.pid);
    Ok(entries
        .into_iter()
        .map(|entry| named(entry, rules))
        .collect())
}

/// The other lists that can hold anything, each with whether its failure leaves open if the
/// device is idle: graphics contexts exist on whole GPUs and on some MIG profiles; MPS clients
/// only where a server is among the compute processes.
fn others<'n>(
    session: &mut Session<'n>,
    asked: &Questioned<'n>,
    compute: &[ProcessEntry],
) -> Vec<(ProcessList, bool)> {
    let mut lists = Vec::new();
    if may_have_graphics(session, asked) {
        lists.push((ProcessList::Graphics, true));
    }
    let has_server = compute
        .iter()
        .any(|entry| procfs::comm(entry.pid as i32).is_some_and(|name| name.starts_with(MPS)));
    if has_server || asked.wants_all() && !compute.is_empty() {
        lists.push((ProcessList::Mps, has_server));
    }
    lists
}

/// Whether there can be graphics contexts on a device. A MIG device without `+gfx` is not
/// asked: what it answers would be one more failure that can hide a free device.
fn may_have_graphics<'n>(session: &mut Session<'n>, asked: &Questioned<'n>) -> bool {
    let Some(slot) = asked.slot else {
        return true;
    };
    let profile = session.profile(asked.gpu, slot, &asked.handle);
    mig_profile::may_have_graphics(profile.as_deref())
}

/// How the names of MPS processes begin, as far as the kernel keeps names (15 bytes).
const MPS: &str = "nvidia-cuda-mps";

fn named(entry: ProcessEntry, rules: &Rules) -> GpuProcess {
    let comm = procfs::comm(entry.pid as i32);
    let ignored = comm.as_deref().is_some_and(|name| rules.ignores(name));
    let name = comm.map(|comm| procfs::program_name(entry.pid as i32, &comm));
    GpuProcess {
        pid: entry.pid,
        memory: entry.memory,
        name,
        ignored,
    }
}

/// Whether another compute instance is in the same GPU instance as the device `own` (GPU
/// instance, compute instance) of a GPU, whose memory they share.
fn is_shared(session: &mut Session<'_>, gpu: u32, own: (u32, u32)) -> bool {
    let slots = session.gpu(gpu, Detail::Uuid).map_or(0, |gpu| gpu.slots);
    (0..slots)
        .filter_map(|slot| session.instance(gpu, slot))
        .any(|other| other.0 == own.0 && other != own)
}
