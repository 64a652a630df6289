//! Programs on devices that a call did not start and was not started by. A server, such
//! as a terminal multiplexer, an editor or a build daemon, passes on the
//! CUDA_VISIBLE_DEVICES of its first client, and so two unrelated programs get one device.

use std::collections::HashSet;

use getgpu_linux::procfs::{self, ancestry};
use getgpu_linux::users;
use getgpu_lock::{Side, Span, holders};
use getgpu_model::Uuid;

use crate::call::{GetgpuCall, node};

/// Prints a line for each device that CUDA_VISIBLE_DEVICES names and an unrelated program has.
/// What cannot be read is no reason to fail.
pub fn warn_of_unrelated(call: &GetgpuCall<'_>, devices: &[Uuid]) {
    let related: HashSet<i32> = ancestry::lineage().iter().map(|(pid, _)| *pid).collect();
    let mut shown = node(call.settings).processes_on(devices).into_iter();
    let mut any = false;
    for device in devices {
        let mut programs = leases(call, device).unwrap_or_default();
        let shown = shown.next().unwrap_or_default();
        programs.extend(shown.iter().map(|one| one.pid as i32));
        let is_unrelated = |pid: &i32| !related.contains(pid) && procfs::comm(*pid).is_some();
        let Some(pid) = programs.into_iter().find(is_unrelated) else {
            continue;
        };
        call.diag.warn(&format!(
            "{device}: also used by {}, which did not start this call",
            users::name_process(pid)
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

/// The programs that lease a device, which are known without NVML.
fn leases(call: &GetgpuCall<'_>, device: &Uuid) -> Option<Vec<i32>> {
    let probe = call.lock_file.open().ok()?;
    let pids = holders::process_ids(&probe, Span::of(device), Side::Lease).ok()?;
    Some(pids.into_iter().collect())
}
