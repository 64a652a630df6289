//! From a choice to a lease: free devices have been claimed already, and named ones are
//! claimed here, after waiting in the queue if that is wanted. A linked program does not
//! wait for a device that is named for it, and runs there even without a lease.

use getgpu_choose::{Decision, Progress, Request, Seeker, Waiter, queue};
use getgpu_lock::OfdLock;
use getgpu_model::{Device, Failure, Uuid};
use getgpu_settings::{RunOrFail, Wait};

use crate::bind::CpuNeighbours;
use crate::call::{CudawrapCall, Origin};
use crate::choose::{Choice, Devices, uuids};
use crate::granted::{self, Named};
use crate::granted_wait::WantedDevices;
use crate::lease::Lease;
use crate::others;
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
        mut request,
        others,
        neighbours,
    } = choice;
    match devices {
        Devices::Free(claimed) => {
            let picked = claimed.picked.into_iter();
            let (devices, claims): (Vec<_>, _) = picked.map(|p| (p.device, p.claim)).unzip();
            let lease = Lease::confirm(call, &request, claims, &[])?;
            drop(claimed.guard);
            Ok(Leased {
                shown: visible::shown(uuids(&devices), &others, &request, call.settings),
                devices,
                lease: Some(lease),
                neighbours,
            })
        }
        Devices::Named(devices) => {
            let by_gpu = request.grant.visible.may_name_gpu()
                && devices.iter().any(|device| device.slot.is_some());
            let named = request.grant.is_named_by_variable() && !by_gpu;
            let stays = call.origin == Origin::Link && named;
            let shown = visible::shown(uuids(&devices), &others, &request, call.settings);
            let shown = shown.filter(|_| !stays);
            let named = match call.origin {
                Origin::Link => granted::lease(call, &mut request, &devices)?,
                Origin::OwnName => lease_in_turn(call, &devices, &request)?,
            };
            let by_batch = shown.is_some();
            Ok(Leased {
                lease: lease_or_run(call, named, &request, by_batch)?,
                devices,
                neighbours,
                shown,
            })
        }
    }
}

/// Leases the devices that the grant names, and waits if another program has them. A part
/// that this process owns already is leased at once; for anything else the queue comes
/// first.
fn lease_in_turn(
    call: &CudawrapCall<'_>,
    devices: &[Device],
    request: &Request,
) -> Result<Named, Failure> {
    let mut request = request.clone();
    request.filter.grant = Some(uuids(devices));
    let wait = call.settings.longest_wait();
    let (queue, waits) = (request.queue(), wait != Wait::NO);
    let probe = call.lock_file.open()?;
    let mut ahead = queue::waiting(&probe, Some(queue))?;
    if ahead > 0 {
        // Whether this call owns it is a walk through /proc: done only where others wait.
        let owned = request.owned(call.lock_file, None);
        if matches!(owned, Decision::All(_)) {
            ahead = 0;
        }
        request.cover = owned.cover();
    }
    let mut wanted = WantedDevices::new(call, devices.to_vec(), request);
    if ahead > 0 && !waits {
        yield_to_queue(&mut wanted, &probe, ahead)?;
    }
    drop(probe);
    if ahead == 0 || !waits {
        let named = granted::lease(call, &mut wanted.request, devices)?;
        if !(waits && matches!(named, Named::Taken(..))) {
            // When the caller reserved a device, NVML showed it idle. NVML was not asked
            // about a device that is only named, so others may run there.
            let request = &wanted.request;
            if request.cover.is_none() && request.filter.share.is_none() {
                tell_of_others(call, &named, devices);
            }
            return Ok(named);
        }
    }
    let progress = Progress::asked(call.settings, call.diag);
    let is_whole = wanted.request.filter.share.is_none();
    let named = Waiter::new(call.lock_file, queue, wanted, progress, wait.into())?.wait()?;
    if is_whole {
        tell_of_others(call, &named, devices);
    }
    Ok(named)
}

fn tell_of_others(call: &CudawrapCall<'_>, named: &Named, devices: &[Device]) {
    if matches!(named, Named::Leased(_)) {
        others::tell(call, devices);
    }
}

/// Fails because others wait for the same devices, unless the head of the queue is stalled
/// and leaves them alone.
fn yield_to_queue(
    wanted: &mut WantedDevices<'_>,
    probe: &OfdLock,
    ahead: usize,
) -> Result<(), Failure> {
    let (many, queue) = (wanted.devices.len(), wanted.request.queue());
    let left_alone = queue::stalled_head::alone(
        || queue::head(probe, queue),
        || Ok(wanted.availability(probe)?.free),
        many,
        queue::stalled_head::ALONE,
    )?;
    if left_alone.is_empty() {
        return Err(queue::taken_by(ahead).hint(wanted.call.how_to_wait()));
    }
    Ok(())
}

/// The lease of named devices, or none for a linked program that runs there anyway, which
/// is said. `by_batch`: no variable names them, but the batch system has given them.
fn lease_or_run(
    call: &CudawrapCall<'_>,
    named: Named,
    request: &Request,
    by_batch: bool,
) -> Result<Option<Lease>, Failure> {
    let linked = call.origin == Origin::Link;
    match named {
        Named::Leased(lease) => return Ok(Some(lease)),
        Named::TooLarge(failure) if linked => {
            let text = format!("{}: running without a lease", failure.message);
            call.diag.warn(&text);
        }
        Named::Taken(uuid, holder) if linked && call.settings.when_taken == RunOrFail::Run => {
            let who = granted::in_use(&uuid, holder.as_ref());
            let why = if by_batch {
                "the batch system gave it to this job"
            } else {
                "CUDA_VISIBLE_DEVICES names it"
            };
            call.diag
                .warn(&format!("{who}: running there because {why}"));
        }
        Named::TooLarge(failure) => return Err(failure),
        Named::Taken(uuid, holder) => {
            return Err(granted::taken(&uuid, holder.as_ref(), request));
        }
    }
    Ok(None)
}
