//! The device of an INDEX: reserved if it is free, and printed in any case. With `--hold`
//! a device that cannot be reserved is a failure.

use getgpu_ask::Node;
use std::ops::ControlFlow;
use std::rc::Rc;

use getgpu_choose::{
    Admission, Chooser, Granted, IndexOrder, Indexed, Offer, Part, Rejected, Taken, choice::cap,
    pool,
};
use getgpu_lock::{Claim, OfdLock, Side};
use getgpu_model::{Device, Failure, Inventory};
use getgpu_queue::Selected;

use crate::call::GetgpuCall;
use crate::causes::ReserveCause;
use crate::obtain::answer::{self, Answer, Chosen};
use crate::obtain::{explain, running};
use crate::options::Keep;

/// The device of this index, in use or not; claimed if it is free. If it is all that the
/// grant names and the caller owns it already, it is printed again, as without an INDEX.
pub fn indexed(
    call: &GetgpuCall<'_>,
    node: &mut Node<'_>,
    granted: &Rc<Granted>,
    index: usize,
) -> Result<Chosen<'static>, Failure> {
    let inventory = node.inventory(granted.look())?;
    let device = of_index(granted, &inventory, index)?;
    let value = answer::value(call, std::iter::once(&device.uuid), Some(&inventory))?;
    let request = &match answer::again_or_inside(call, granted, Some(&inventory))? {
        ControlFlow::Break(answer) => return Ok(Chosen::Ready(answer)),
        ControlFlow::Continue(request) => request,
    };
    let probe = call.lock_file.open()?;
    let mut chooser = Chooser {
        node,
        lock_file: &call.lock_file,
        side: Side::Reservation,
        request,
        skip: &|other| other != device,
    };
    let why = match cap::enter(&call.lock_file, &probe, &inventory, request)? {
        Admission::Over(over) => format!("{}: {}", device.uuid, over.message),
        Admission::Within(guard) => match offer(call, &mut chooser, &probe, device)? {
            Ok(claim) => {
                let parts = vec![Part::claimed(device.clone(), claim)];
                let taken = Taken::new(parts, request.cover.clone(), guard);
                return Ok(Chosen::Unconfirmed(Selected::Taken(taken)));
            }
            Err(why) => explain::passed_over(device, Some(&why), &call.lock_file, &probe),
        },
    };
    accept_unreserved(call, &why)?;
    // It is printed although another user may have it.
    let uuids = vec![device.uuid.clone()];
    Ok(Chosen::Ready(Answer::of(uuids, value, None, 1.0)))
}

/// The device, if it is free, or used by nothing but the running program that it is to be held for.
fn offer(
    call: &GetgpuCall<'_>,
    chooser: &mut Chooser<'_, '_>,
    probe: &OfdLock,
    device: &Device,
) -> Result<Offer<Claim>, Failure> {
    let offered = chooser.try_device(probe, device)?;
    let (Err(Rejected::Busy(_)), Keep::Hold(Some(pid))) = (&offered, call.options.keep) else {
        return Ok(offered);
    };
    Ok(running::claim(chooser, probe, device, pid)?.unwrap_or(offered))
}

/// A device that was named is printed although it cannot be reserved, but never held.
fn accept_unreserved(call: &GetgpuCall<'_>, why: &str) -> Result<(), Failure> {
    match call.options.keep {
        Keep::Hold(_) => Err(ReserveCause::NotHeld { why }.into()),
        Keep::No => Ok(()),
        Keep::ForProgram => {
            call.diag.warn(&format!("not reserved: {why}"));
            Ok(())
        }
    }
}

/// The device of this index.
fn of_index<'a>(
    granted: &Granted,
    inventory: &'a Inventory,
    index: usize,
) -> Result<&'a Device, Failure> {
    let order = IndexOrder::of(&granted.filter, inventory);
    if order.places.is_empty() && order.ends_at.is_none() {
        return Err(pool::empty_pool(&granted.filter, inventory));
    }
    match (order.places.get(index), order.ends_at) {
        (Some(Indexed::Device(device, None)), _) => Ok(device),
        (Some(Indexed::Device(device, Some(outside))), _) => {
            let (uuid, why) = (&device.uuid, granted.filter.reason(*outside));
            Err(ReserveCause::IndexOutside { index, uuid, why }.into())
        }
        (Some(Indexed::Silent(silent)), _) => {
            Err(ReserveCause::IndexSilent { index, silent }.into())
        }
        (None, Some(silent)) => {
            let gpu = silent.gpu;
            Err(ReserveCause::IndexUncertain { index, gpu, silent }.into())
        }
        (None, None) => Err(no_such_index(index, order.places.len(), granted)),
    }
}

fn no_such_index(index: usize, devices: usize, granted: &Granted) -> Failure {
    let there = match devices {
        1 => "there is 1 device, 0".to_owned(),
        many => format!("there are {many} devices, 0 to {}", many - 1),
    };
    let (within, remedy) = match granted.filter.grant {
        Some(_) => (", within CUDA_VISIBLE_DEVICES", granted.grant.without()),
        None => (
            "",
            "getgpu --list; to wait for a free device: getgpu --wait",
        ),
    };
    ReserveCause::NoIndex {
        index,
        there,
        within,
        remedy,
    }
    .into()
}
