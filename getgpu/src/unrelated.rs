//! Programs on a device that a call did not start and was not started by. A server, such
//! as a terminal multiplexer, an editor or a build daemon, passes on the
//! CUDA_VISIBLE_DEVICES of its first client, and so two unrelated programs get one device.

use std::collections::HashSet;

use getgpu_linux::procfs::{self, ancestry};
use getgpu_lock::{Side, Span, holders};
use getgpu_model::{Detail, Uuid};

use crate::call::{GetgpuCall, node};

/// Prints a line if an unrelated program has the one device that CUDA_VISIBLE_DEVICES
/// names. What cannot be read is no reason to fail.
pub fn warn_of_unrelated(call: &GetgpuCall<'_>, device: &Uuid) {
    let related: HashSet<i32> = ancestry::lineage().iter().map(|(pid, _)| *pid).collect();
    let Some(pid) = programs_on(call, device)
        .into_iter()
        .find(|pid| !related.contains(pid))
    else {
        return;
    };
    let Some(comm) = procfs::comm(pid) else {
        return;
    };
    let user = procfs::euid(pid).map_or_else(|| "another user".to_owned(), procfs::user_name);
    let program = procfs::program_name(pid, &comm);
    call.diag.warn(&format!(
        "{device}: also used by {user} (pid {pid}, {program}), which did not start this call"
    ));
    call.diag.hint(if call.environment.batch_job {
        "the batch system set CUDA_VISIBLE_DEVICES for this job: does a program of another job use its devices?"
    } else {
        "CUDA_VISIBLE_DEVICES names it, perhaps since a server or this shell passes it on: --ignore-grant chooses among all devices"
    });
}

/// The programs that lease the device, and those that NVML shows there.
fn programs_on(call: &GetgpuCall<'_>, device: &Uuid) -> Vec<i32> {
    let leases = call.lock_file.open().and_then(|probe| {
        let pids = holders::process_ids(&probe, Span::of(device), Side::Lease)?;
        Ok(pids.into_iter().collect::<Vec<i32>>())
    });
    let processes = node(call.settings).ask(|node| {
        let usage = node.nvml()?.usage_by_uuid(device, Detail::Full)?;
        let pids = usage.processes.iter().map(|one| one.pid as i32);
        Ok(pids.collect::<Vec<_>>())
    });
    let mut programs = leases.unwrap_or_default();
    programs.extend(processes.unwrap_or_default());
    programs
}
