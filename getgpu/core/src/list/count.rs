//! `--count-free`: how many devices of the pool are free, or, with a share, how many
//! programs would find room. Nothing is taken, so by the time it is read it may be
//! different.

use std::rc::Rc;

use getgpu_ask::Node;
use getgpu_choose::{Asked, Chooser, Owned, Portion};
use getgpu_lock::{LockFile, Occupancy, OfdLock, Side, Span};
use getgpu_model::{Device, Failure, Kind, diag::show};

/// Prints the number: 0 also where there is a driver and no GPU.
pub fn free(node: &mut Node<'_>, asked: &Asked, lock_file: &LockFile) -> Result<(), Failure> {
    let free = match node.ask(|node| count(node, asked, lock_file)) {
        Err(none) if none.kind == Kind::NoUsableGpu => 0,
        other => other?,
    };
    show(&format!("{free}\n"))
}

fn count(node: &mut Node<'_>, asked: &Asked, lock_file: &LockFile) -> Result<i64, Failure> {
    let inventory = node.inventory(asked.look())?;
    let granted = Rc::new(asked.clone().shown(&inventory));
    let cover = granted.owned(lock_file, Some(&inventory)).cover();
    let request = &Owned::inside(&granted, cover);
    let probe = lock_file.open()?;
    let mut chooser = Chooser {
        node,
        lock_file,
        side: Side::Reservation,
        request,
        skip: &|_| false,
    };
    let mut free = 0;
    for device in request.filter.pool(&inventory) {
        if chooser.check_unclaimed(&probe, device)?.is_none() {
            free += places(&mut chooser, &probe, device)?;
        }
    }
    Ok(free)
}

/// How many times the request fits on a device that it can have.
fn places(chooser: &mut Chooser<'_, '_>, probe: &OfdLock, device: &Device) -> Result<i64, Failure> {
    let request = chooser.request;
    let (ours, portion) = request.portion(device);
    let Portion::Units(wanted) = portion else {
        return Ok(1);
    };
    let taken = Occupancy::read(probe, request.level(), Span::of(&device.uuid))?.all();
    let fit = ours.difference(&taken).count() / wanted.max(1);
    if fit <= 1 {
        return Ok(fit);
    }
    Ok(match chooser.node.nvml()?.health(device)? {
        // In compute mode Exclusive_Process one program at a time.
        Ok(health) if !request.can_start_beside(&health) => 1,
        _ => fit,
    })
}
