//! Programs on devices that a call did not start and was not started by. A server, such
//! as a terminal multiplexer, an editor or a build daemon, passes on the
//! CUDA_VISIBLE_DEVICES of its first client, and so two unrelated programs get one device.

use std::collections::HashSet;

use getgpu_linux::procfs::{self, ancestry};
use getgpu_linux::users;
use getgpu_lock::{Side, Span, holders};
use getgpu_model::{Detail, Uuid};

use crate::call::{GetgpuCall, node};

/// Prints a line for each device that CUDA_VISIBLE_DEVICES names and an unrelated program has.
/// What cannot be read is no reason to fail.
pub fn warn_of_unrelated(call: &GetgpuCall<'_>, devices: &[Uuid]) {
    let related: HashSet<i32> = ancestry::lineage().iter().map(|(pid, _)| *pid).collect();
    let programs = programs_on(call, devices);
    let mut any = false;
    for (device, programs) in devices.iter().zip(programs) {
        let unrelated = programs.into_iter().find(|pid| !related.contains(pid));
        let Some((pid, comm)) = unrelated.and_then(|pid| Some((pid, procfs::comm(pid)?))) else {
            continue;
        };
        let user = procfs::euid(pid).map_or_else(|| "another user".to_owned(), users::name);
        let program = procfs::program_name(pid, &comm);
        call.diag.warn(&format!(
            "{device}: also used by {user} (pid {pid}, {program}), which did not start this call"
        ));
        any = true;
    }
    if any {
        call.diag.hint(if call.environment.batch_job {
            "the batch system set CUDA_VISIBLE_DEVICES for this job: does a program of another job use its devices?"
        } else {
            "CUDA_VISIBLE_DEVICES names it, perhaps since a server or this shell passes it on: --ignore-grant chooses among all devices"
        });
    }
}

/// For each device the programs that lease it, and those that NVML shows there.
fn programs_on(call: &GetgpuCall<'_>, devices: &[Uuid]) -> Vec<Vec<i32>> {
    let leases = |device: &Uuid| -> Option<Vec<i32>> {
        let probe = call.lock_file.open().ok()?;
        let pids = holders::process_ids(&probe, Span::of(device), Side::Lease).ok()?;
        Some(pids.into_iter().collect())
    };
    let mut programs: Vec<Vec<i32>> = devices
        .iter()
        .map(|device| leases(device).unwrap_or_default())
        .collect();
    let shown = node(call.settings).ask(|node| {
        for (device, programs) in devices.iter().zip(&mut programs) {
            let usage = node.nvml()?.usage_by_uuid(device, Detail::Full)?;
            programs.extend(usage.processes.iter().map(|one| one.pid as i32));
        }
        Ok(())
    });
    // Those that lease it are known without NVML.
    drop(shown);
    programs
}
