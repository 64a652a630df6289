//! The device of an INDEX: reserved if it is free, and printed in any case. With `--hold`
//! a device that cannot be reserved is a failure.

use getgpu_common::choice::cap::Admission;
use getgpu_common::choice::chooser::{Chooser, Claimed};
use getgpu_common::choice::device_claim::Picked;
use getgpu_common::choice::rejection_report::{self, Offer};
use getgpu_common::error::{Failure, Kind};
use getgpu_common::inventory::{Device, Inventory};
use getgpu_common::lock::Side;
use getgpu_common::node::Node;
use getgpu_common::ownership::Decision;
use getgpu_common::request::{Request, WITHOUT_GRANT};

use crate::answer::{self, Answer, Chosen};
use crate::explain;
use crate::invocation::Invocation;
use crate::options::Keep;

/// The device of this index, in use or not; claimed if it is free. If it is all that the
/// grant names and the caller owns it already, it is printed again, as without an INDEX.
pub fn indexed(
    call: &Invocation<'_>,
    node: &mut Node<'_>,
    request: &mut Request,
    index: usize,
) -> Result<Chosen, Failure> {
    let inventory = node.inventory(request.detail())?;
    let owned = request.owned(&call.lock_file, Some(&inventory));
    let device = of_index(request, &inventory, index)?;
    let value = answer::value(call, std::iter::once(&device.uuid), Some(&inventory))?;
    if let Decision::All(cover) = &owned {
        return Ok(Chosen::Ready(answer::again(call, cover, value)?));
    }
    request.cover = owned.cover();
    let probe = call.lock_file.open()?;
    let mut chooser = Chooser {
        node,
        lock_file: &call.lock_file,
        side: Side::Reservation,
        request,
        skip: &|other| other != device,
    };
    let why = match chooser.within_cap(&probe, &inventory)? {
        Admission::Over(over) => format!("{}: {}", device.uuid, over.message),
        Admission::Within(guard) => match chooser.try_device(&probe, device)? {
            Offer::Available(claim) => {
                let device = device.clone();
                let picked = vec![Picked { device, claim }];
                return Ok(Chosen::Claimed(Claimed { picked, guard }));
            }
            Offer::Rejected(why) => {
                explain::passed_over(device, Some(&why), &call.lock_file, &probe)
            }
        },
    };
    accept_unreserved(call, &why)?;
    // It is printed although another user may have it.
    let uuids = vec![device.uuid.clone()];
    Ok(Chosen::Ready(Answer::of(uuids, value, None, 1.0)))
}

/// A device that was named is printed although it cannot be reserved, but never held.
fn accept_unreserved(call: &Invocation<'_>, why: &str) -> Result<(), Failure> {
    match call.options.keep {
        Keep::Hold(_) => {
            let failure = Failure::new(Kind::NoneFree, format!("not held: {why}"));
            Err(failure
                .hint("getgpu --hold without INDEX holds a free device; getgpu --list shows them"))
        }
        Keep::No => Ok(()),
        Keep::ForProgram => {
            call.diag.warn(&format!("not reserved: {why}"));
            Ok(())
        }
    }
}

/// The device of this index.
fn of_index<'a>(
    request: &Request,
    inventory: &'a Inventory,
    index: usize,
) -> Result<&'a Device, Failure> {
    let indexed = request.filter.indexed(inventory);
    if indexed.is_empty() {
        return Err(rejection_report::empty_pool(
            &request.filter,
            inventory,
            &request.filter.sort(inventory),
        ));
    }
    match indexed.get(index) {
        Some((device, None)) => Ok(device),
        Some((device, Some(outside))) => {
            let why = request.filter.reason(*outside);
            let text = format!("device {index}: {}: {why}", device.uuid);
            Err(Failure::new(Kind::Usage, text).hint("getgpu --list shows which are not excluded"))
        }
        None => Err(no_such_index(index, indexed.len(), request)),
    }
}

fn no_such_index(index: usize, devices: usize, request: &Request) -> Failure {
    let there = match devices {
        1 => "there is 1 device, 0".to_owned(),
        many => format!("there are {many} devices, 0 to {}", many - 1),
    };
    let (within, hint) = match request.filter.grant {
        Some(_) => (
            ", within CUDA_VISIBLE_DEVICES",
            request.grant.remedy(WITHOUT_GRANT),
        ),
        None => (
            "",
            "getgpu --list; to wait for a free device: getgpu --wait",
        ),
    };
    Failure::new(Kind::Usage, format!("no device {index}: {there}{within}")).hint(hint)
}
