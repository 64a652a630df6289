//! Who uses a device: its process lists, its memory, and the verdict from both. Asks as
//! few calls as the verdict needs; people who want to see everything ask with full
//! detail.

use nvml_wrapper::Device as Handle;

use super::fault::{Fault, with_retries};
use super::judge::{Question, judge};
use super::memory;
use super::processes::Entry;
use super::raw::{self, List};
use super::session::Session;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Detail, Memory, Process, Usage};
use getgpu_common::nvml_client::rules::Rules;
use getgpu_common::procfs;

/// The use of one device.
pub(super) fn usage(
    session: &mut Session<'_>,
    rules: &Rules,
    gpu: u32,
    slot: Option<u32>,
    detail: Detail,
) -> Result<Usage, Fault> {
    let handle = session.handle(gpu, slot)?;
    witnesses(
        session,
        rules,
        &handle,
        slot.is_some(),
        detail,
        |session, question| match question {
            Question::Neighbours => slot.is_some_and(|slot| shares_instance(session, gpu, slot)),
            Question::NumaNode => session
                .handle(gpu, None)
                .is_ok_and(|gpu| raw::is_numa_node(session.nvml, &gpu)),
        },
    )
}

/// The use of the device of a UUID. Where compute instances share memory that cannot be
/// told from it: then memory counts.
pub(super) fn usage_of(
    session: &mut Session<'_>,
    rules: &Rules,
    uuid: &Uuid,
) -> Result<Usage, Fault> {
    let call = "DeviceGetHandleByUUID";
    let nvml = session.nvml;
    let handle = with_retries(|| {
        nvml.device_by_uuid(uuid.as_str())
            .map_err(|e| Fault::from(call, &e))
    })?;
    witnesses(
        session,
        rules,
        &handle,
        uuid.is_mig(),
        Detail::Uuid,
        |session, question| match question {
            Question::Neighbours => false,
            Question::NumaNode if uuid.is_mig() => handle
                .mig_parent_device()
                .is_ok_and(|gpu| raw::is_numa_node(session.nvml, &gpu)),
            Question::NumaNode => raw::is_numa_node(session.nvml, &handle),
        },
    )
}

fn witnesses<'n>(
    session: &mut Session<'n>,
    rules: &Rules,
    handle: &Handle<'n>,
    mig: bool,
    detail: Detail,
    mut ask: impl FnMut(&mut Session<'n>, Question) -> bool,
) -> Result<Usage, Fault> {
    let processes = processes(session, rules, handle, mig, detail);
    let busy = processes
        .as_ref()
        .is_ok_and(|list| list.iter().any(|p| !p.ignored));
    let full = detail >= Detail::Full;
    // A process is proof enough: memory is asked for only where it can still decide, or
    // is wanted.
    let memory = if !full && (processes.is_err() || busy) {
        None
    } else {
        Some(memory::memory(session.nvml, handle))
    };
    let told = match &memory {
        Some(Ok(memory)) => Ok(*memory),
        Some(Err(fault)) => Err(fault.clone()),
        None => Ok(Memory { total: 0, used: 0 }),
    };
    let (activity, reason) = judge(
        rules,
        processes.as_deref(),
        told.as_ref().copied(),
        |question| ask(session, question),
    );
    Ok(Usage {
        activity,
        reason,
        processes: processes.unwrap_or_default(),
        memory: memory.and_then(Result::ok),
    })
}

fn processes(
    session: &Session<'_>,
    rules: &Rules,
    handle: &Handle<'_>,
    mig: bool,
    detail: Detail,
) -> Result<Vec<Process>, Fault> {
    let list = |list| with_retries(|| raw::processes(session.nvml, handle, list));
    let mut entries = list(List::Compute)?;
    let server = |e: &Entry| {
        procfs::comm(e.pid as i32).is_some_and(|name| name.starts_with("nvidia-cuda-mps"))
    };
    let full = detail >= Detail::Full;
    // Graphics exists on whole GPUs and on few profiles; MPS clients only where there is
    // a server.
    let others = [
        (List::Graphics, !mig),
        (List::Mps, entries.iter().any(server)),
    ];
    for (kind, decides) in others {
        if decides || full {
            match list(kind) {
                Ok(more) => entries.extend(more),
                // A list that is there and not told may hold a process: that is not known
                // to be idle.
                Err(fault) if decides && !fault.absent() => return Err(fault),
                Err(_) => {}
            }
        }
    }
    if mig && entries.iter().any(|entry| entry.instance.is_some()) {
        // It is not certain that the handle of one of two compute instances lists only
        // its own.
        if let Ok(own) = raw::instance(session.nvml, handle) {
            entries.retain(|entry| entry.instance.is_none_or(|instance| instance == own));
        }
    }
    entries.sort_by_key(|entry| entry.pid);
    entries.dedup_by_key(|entry| entry.pid);
    Ok(entries
        .into_iter()
        .map(|entry| named(entry, rules))
        .collect())
}

fn named(entry: Entry, rules: &Rules) -> Process {
    let comm = procfs::comm(entry.pid as i32);
    let ignored = comm.as_deref().is_some_and(|name| rules.ignores(name));
    let name = comm.map(|comm| procfs::program_name(entry.pid as i32, &comm));
    Process {
        pid: entry.pid,
        memory: entry.memory,
        name,
        ignored,
    }
}

/// Whether another compute instance is in the same GPU instance, whose memory they share.
fn shares_instance(session: &mut Session<'_>, gpu: u32, slot: u32) -> bool {
    let Ok(own) = session
        .handle(gpu, Some(slot))
        .and_then(|handle| raw::instance(session.nvml, &handle))
    else {
        return false;
    };
    let slots = session.gpu(gpu, Detail::Uuid).map_or(0, |gpu| gpu.slots);
    (0..slots).filter(|other| *other != slot).any(|other| {
        let instance = session
            .handle(gpu, Some(other))
            .and_then(|handle| raw::instance(session.nvml, &handle));
        instance.is_ok_and(|(gi, _)| gi == own.0)
    })
}
