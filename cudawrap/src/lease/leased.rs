//! From a choice to a lease: free devices have been claimed already, and named ones are
//! claimed here, after waiting in the queue if that is wanted. A linked program does not
//! wait for a device that is named for it, and runs there even without a lease.

use std::rc::Rc;

use getgpu_choose::{Granted, NamedOutcome, NamedTake};
use getgpu_model::{Device, Failure, Uuid};
use getgpu_queue::take_in_turn;
use getgpu_settings::RunOrFail;

use crate::call::{CudawrapCall, Origin};
use crate::lease::Lease;
use crate::lease::choose::{Choice, uuids};
use crate::lease::others;
use crate::visible;

/// Leases what was chosen: the lease, without which a linked program runs on the devices if it has to,
/// and what CUDA_VISIBLE_DEVICES is to name; none: it stays as it is.
///
/// # Errors
///
/// Another program has a device that is named, or the reservation that a device was chosen
/// from has ended.
pub fn lease(
    call: &CudawrapCall<'_>,
    choice: &mut Choice,
) -> Result<(Option<Lease>, Option<Vec<Uuid>>), Failure> {
    let (devices, request) = (&choice.devices, &choice.request);
    let shown = visible::shown(uuids(devices), &choice.others, request, call.settings);
    if let Some(taken) = choice.taken.take() {
        return Ok((Some(Lease::confirm(call, taken)?), shown));
    }
    let by_gpu =
        request.grant.visible.may_name_gpu() && devices.iter().any(|device| device.slot.is_some());
    let is_named = request.grant.is_named_by_variable() && !by_gpu;
    let stays = call.origin == Origin::Link && is_named && choice.node.is_none();
    let shown = shown.filter(|_| !stays);
    let lease = lease_named(call, request, devices)?;
    Ok((lease, shown))
}

/// The lease of named devices. `None`: a linked program runs there without one, and a warning says so.
fn lease_named(
    call: &CudawrapCall<'_>,
    request: &Granted,
    devices: &[Device],
) -> Result<Option<Lease>, Failure> {
    let named = NamedTake {
        lock_file: call.lock_file,
        diag: call.diag,
        linger: call.settings.linger,
        request: Rc::new(request.named(uuids(devices))),
        devices,
    };
    let is_linked = call.origin == Origin::Link;
    let outcome = if is_linked {
        named.take()?
    } else {
        take_in_turn(&named, call.settings, call.how_to_wait())?
    };
    let (failure, warning) = match outcome {
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
        NamedOutcome::TooLarge(failure) => {
            let warning = format!("{}: running without a lease", failure.message);
            (failure, warning)
        }
        NamedOutcome::InUse(failure) => {
            let why = match request.grant.is_named_by_variable() {
                true => "CUDA_VISIBLE_DEVICES names it",
                false => "the batch system gave it to this job",
            };
            let warning = format!("{}: running there because {why}", failure.message);
            (failure, warning)
        }
    };
    if !is_linked || call.settings.when_taken == RunOrFail::Fail {
        return Err(failure);
    }
    call.diag.warn(&warning);
    Ok(None)
}
