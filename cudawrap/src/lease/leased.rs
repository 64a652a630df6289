//! From a choice to a lease: free devices have been claimed already, and named ones are
//! claimed here, after waiting in the queue if that is wanted. A linked program does not
//! wait for a device that is named for it, and runs there even without a lease.

use std::rc::Rc;

use getgpu_choose::{Granted, NamedOutcome, NamedTake};
use getgpu_model::{Device, Failure, Inventory, Uuid};
use getgpu_queue::take_in_turn;
use getgpu_settings::RunOrFail;

use crate::bind::CpuNeighbours;
use crate::call::{CudawrapCall, Origin};
use crate::lease::Lease;
use crate::lease::choose::{Choice, uuids};
use crate::lease::others;
use crate::visible;

/// What a choice has become.
pub struct Leased {
    pub devices: Vec<Device>,
    /// Among which the CPUs near them are divided.
    pub neighbours: CpuNeighbours,
    /// None: a linked program runs on the devices without one.
    pub lease: Option<Lease>,
    /// What CUDA_VISIBLE_DEVICES is to name; none: it stays as it is.
    pub shown: Option<Vec<Uuid>>,
    /// The node, where it is to name them by their indices.
    pub node: Option<Rc<Inventory>>,
}

/// Leases what was chosen.
///
/// # Errors
///
/// Another program has a device that is named, or the reservation that a device was chosen
/// from has ended.
pub fn lease(call: &CudawrapCall<'_>, choice: Choice) -> Result<Leased, Failure> {
    let Choice {
        devices,
        taken,
        request,
        others,
        neighbours,
        node,
    } = choice;
    let mut shown = visible::shown(uuids(&devices), &others, &request, call.settings);
    let lease = if let Some(taken) = taken {
        Some(Lease::confirm(call, taken)?)
    } else {
        let by_gpu = request.grant.visible.may_name_gpu()
            && devices.iter().any(|device| device.slot.is_some());
        let is_named = request.grant.is_named_by_variable() && !by_gpu;
        let stays = call.origin == Origin::Link && is_named && node.is_none();
        shown = shown.filter(|_| !stays);
        lease_named(call, &request, &devices, shown.is_some())?
    };
    Ok(Leased {
        devices,
        neighbours,
        lease,
        shown,
        node,
    })
}

/// The lease of named devices, or none for a linked program that runs there anyway, which is
/// said. `by_batch`: no variable names them, but the batch system has given them.
fn lease_named(
    call: &CudawrapCall<'_>,
    request: &Granted,
    devices: &[Device],
    by_batch: bool,
) -> Result<Option<Lease>, Failure> {
    let named = NamedTake {
        lock_file: call.lock_file,
        diag: call.diag,
        linger: call.settings.linger,
        request,
        devices,
    };
    let is_linked = call.origin == Origin::Link;
    let outcome = if is_linked {
        named.take()?
    } else {
        take_in_turn(&named, call.settings, call.how_to_wait())?
    };
    let runs_anyway = is_linked && call.settings.when_taken == RunOrFail::Run;
    match outcome {
        NamedOutcome::Taken(taken) => {
            // When the caller reserved a device, NVML showed it idle. NVML was not asked about a
            // device that is only named, so others may run there.
            let is_new = taken.cover.is_none() && request.filter.share.is_none();
            let lease = Lease::confirm(call, taken)?;
            if is_new && !is_linked {
                others::tell(call, devices);
            }
            return Ok(Some(lease));
        }
        NamedOutcome::TooLarge(failure) if runs_anyway => {
            let text = format!("{}: running without a lease", failure.message);
            call.diag.warn(&text);
        }
        NamedOutcome::InUse(in_use) if runs_anyway => {
            let why = if by_batch {
                "the batch system gave it to this job"
            } else {
                "CUDA_VISIBLE_DEVICES names it"
            };
            let who = in_use.line();
            call.diag
                .warn(&format!("{who}: running there because {why}"));
        }
        NamedOutcome::TooLarge(failure) => return Err(failure),
        NamedOutcome::InUse(in_use) => return Err(in_use.failure(&request.grant)),
    }
    Ok(None)
}
