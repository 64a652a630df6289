//! What CUDA_VISIBLE_DEVICES leaves to a linked program, whose user did not ask for a device: one
//! that is named is leased as it is, and of several it gets what `cudawrap -- PROGRAM` would.

use std::rc::Rc;

use getgpu_ask::Node;
use getgpu_choose::{Asked, Decision, Granted};
use getgpu_model::{Device, Failure, Inventory, Share, Visible};
use getgpu_settings::RunOrFail;

use crate::call::CudawrapCall;
use crate::lease::choose::{Choice, by_uuid, free, granted, only};
use crate::lease::helper;

/// What CUDA_VISIBLE_DEVICES leaves to it: the one device that it names, or what
/// `cudawrap -- PROGRAM` would get of several, or of the MIG devices of the GPUs that it names. None:
/// a program that runs already uses several as they are.
///
/// # Errors
///
/// What it names cannot be told, or no device of it is free.
pub fn named(call: &CudawrapCall<'_>, asked: Asked) -> Result<Option<Choice>, Failure> {
    let visible = &asked.grant().visible;
    let known = by_uuid(call, &asked).filter(|device| {
        // What was reserved under its name is a device, and no GPU in MIG mode.
        let named = std::slice::from_ref(&device.uuid);
        device.uuid.is_mig() || asked.owned_of(call.lock_file, named, &[]) != Decision::Nothing
    });
    if let Some(device) = known {
        return only(call, device, asked.by_name(), None).map(Some);
    }
    let several = matches!(visible, Visible::Entries(entries) if entries.len() > 1);
    let is_left_alone = call.lessee.runs_already() && !call.settings.count_all;
    if several && is_left_alone && !visible.may_name_gpu() {
        return Ok(None);
    }
    let mut node = helper::node(call.settings);
    match resolve(call, asked.clone(), &mut node) {
        Ok((request, inventory)) if request.grant.names_gpu_in_mig_mode(&inventory) => {
            free(call, asked, node).map(Some)
        }
        Ok((request, inventory)) => match <[Device; 1]>::try_from(granted(&request, &inventory)) {
            Ok([device]) if !several => {
                request.grant.tell_correction(call.diag);
                only(call, device, request, Some(inventory)).map(Some)
            }
            _ if is_left_alone => Ok(None),
            _ => free(call, asked, node).map(Some),
        },
        Err(failure) => unresolved(call, asked, failure),
    }
}

/// What becomes of a program whose variable names what cannot be told: a line says why, and
/// `when_taken` decides. A device that is named by its full UUID is leased all the same.
fn unresolved(
    call: &CudawrapCall<'_>,
    asked: Asked,
    failure: Failure,
) -> Result<Option<Choice>, Failure> {
    // For MPS alone the memory need not be known.
    let by_size = call.settings.share.is_some_and(Share::needs_memory);
    let uuid = asked.grant().visible.single_uuid().filter(|_| !by_size);
    let device = uuid.cloned().map(Device::by_uuid);
    let is_mig = device.as_ref().is_some_and(|device| device.uuid.is_mig());
    if !is_mig {
        if failure.is_no_gpu() || call.settings.when_taken == RunOrFail::Fail {
            return Err(failure);
        }
        let why = &failure.message;
        call.diag.warn(&format!(
            "{why}: the program runs on what CUDA_VISIBLE_DEVICES names"
        ));
    }
    let granted = asked.by_name();
    device
        .map(|device| only(call, device, granted, None))
        .transpose()
}

/// Asks NVML what the variable names: the request for these devices, and the node.
fn resolve<'s>(
    call: &CudawrapCall<'s>,
    asked: Asked,
    node: &mut Node<'s>,
) -> Result<(Granted, Rc<Inventory>), Failure> {
    node.ask(|node| {
        let request = asked.granted(node)?;
        let grant = request.filter.grant.clone().unwrap_or_default();
        let inventory = if call.settings.bind {
            node.note_cpus(request.look(), |device| grant.contains(&device.uuid))?
        } else {
            node.inventory(request.look())?
        };
        if let Some(unclear) = request.grant.unclear_index() {
            return Err(unclear);
        }
        Ok((request, inventory))
    })
}
