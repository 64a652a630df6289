//! `--count-free`: how many devices of the pool are free, or, with a share, how many
//! programs would find room. Nothing is taken, so by the time it is read it may be
//! different.

use std::rc::Rc;

use getgpu_ask::Node;
use getgpu_choose::{Asked, Owned, Portion, choice::device_claim};
use getgpu_lock::{LockFile, Occupancy, OfdLock, Span};
use getgpu_model::{Activity, Detail, Device, Failure, Kind, diag::show};

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
    let request = &Owned::inside(&granted, None).renewed(lock_file, &inventory);
    let probe = lock_file.open()?;
    let mut free = 0;
    for device in request.filter.pool(&inventory) {
        let places = places(&probe, request, device)?;
        let confirmed = !Occupancy::read(&probe, request.level(), Span::of(&device.uuid))?
            .confirmed
            .is_empty();
        // As in a choice: not asked where others have their shares, nor inside what this
        // call owns.
        free += match places {
            0 => 0,
            places if confirmed || request.cover.is_some() => {
                let is_part = request.filter.share.is_some();
                if confirmed && is_part && !has_room_beside(node, request, device)? {
                    0
                } else {
                    places
                }
            }
            places => {
                let usage = node.nvml()?.usage(device, Detail::Uuid)?;
                match usage.activity {
                    Activity::Idle if !request.can_start_beside(&usage.health) => 1,
                    Activity::Idle => places,
                    _ => 0,
                }
            }
        };
    }
    Ok(free)
}

/// Whether a device on which another program has a part can have a second program, as far as
/// NVML tells. As in a choice, only that decides of what this call owns.
fn has_room_beside(node: &mut Node<'_>, request: &Owned, device: &Device) -> Result<bool, Failure> {
    let is_owned = request.cover.is_some();
    Ok(match node.nvml()?.health(device)? {
        Ok(health) => {
            let is_well = is_owned || health.objection().is_none();
            is_well && request.can_start_beside(&health)
        }
        Err(_) => is_owned,
    })
}

/// How many times the request fits on a device, as far as the lock tells.
fn places(probe: &OfdLock, request: &Owned, device: &Device) -> Result<i64, Failure> {
    if device_claim::units(probe, request, device)?.is_err() {
        return Ok(0);
    }
    let (ours, portion) = request.portion(device);
    let Portion::Units(wanted) = portion else {
        return Ok(1);
    };
    let taken = Occupancy::read(probe, request.level(), Span::of(&device.uuid))?.all();
    Ok(ours.difference(&taken).count() / wanted.max(1))
}
