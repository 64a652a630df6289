//! `--explain`: a line per device that was not taken, with the reason, and a line per
//! thing that is wrong with the lists. Text from what the choice found, and from the lock.

use getgpu_choose::{Filter, Outside, Rejected};
use getgpu_lock::{LockFile, OfdLock, Span, holders};
use getgpu_model::{Device, Inventory};

/// Lines for the devices outside the pool, and for lists and GPUs that have problems.
pub fn outside(filter: &Filter, inventory: &Inventory, sorted: &[Option<Outside>]) -> Vec<String> {
    let devices = inventory.devices.iter().zip(sorted);
    let mut lines: Vec<String> = devices
        .filter_map(|(device, out)| {
            out.map(|out| format!("{}: {}", name(device), filter.reason(out)))
        })
        .collect();
    lines.extend(problems(filter, inventory));
    lines
}

/// What is wrong with GPUs and with the site's lists.
pub fn problems(filter: &Filter, inventory: &Inventory) -> Vec<String> {
    let mut lines = inventory.troubles();
    lines.extend(filter.bad_entries());
    for (list, what) in filter.lists() {
        let missing = list.without(&inventory.devices);
        lines.extend(
            missing
                .iter()
                .map(|entry| format!("{what} list: {entry} does not exist on this node")),
        );
    }
    lines
}

/// The line of a device of the pool that was not taken: why it is not free, or that
/// another one was drawn.
pub fn passed_over(
    device: &Device,
    why: Option<&Rejected>,
    lock_file: &LockFile,
    probe: &OfdLock,
) -> String {
    let why = match why {
        None => match known_holder(lock_file, probe, device) {
            None => "free, but another device was chosen".to_owned(),
            Some(holder) => format!("room for this call, but another device was chosen: {holder}"),
        },
        Some(Rejected::Kept) => {
            let who = holders::keeper(lock_file, probe).unwrap_or_default().who();
            format!("kept for {who}: it waits for several devices, or for all of one")
        }
        Some(Rejected::Taken | Rejected::Tentative) => holder(lock_file, probe, device),
        Some(Rejected::Free) => "free, but too few devices are free".to_owned(),
        Some(Rejected::NoRoom) => {
            format!(
                "no room for the share: {}",
                holder(lock_file, probe, device)
            )
        }
        Some(Rejected::Busy(reason)) => format!("busy: {reason}"),
        Some(Rejected::Unknown(reason)) => format!("unknown: {reason}"),
        Some(Rejected::Unhealthy(reason)) => format!("unhealthy: {reason}"),
    };
    format!("{}: {why}", name(device))
}

fn name(device: &Device) -> String {
    match device.slot {
        Some(slot) => format!("{} (GPU {} MIG device {slot})", device.uuid, device.gpu),
        None => format!("{} (GPU {})", device.uuid, device.gpu),
    }
}

fn holder(lock_file: &LockFile, probe: &OfdLock, device: &Device) -> String {
    let known = known_holder(lock_file, probe, device);
    known.unwrap_or_else(|| "another call is taking it at this moment".into())
}

/// Who has a part of a device, or all of it, if anybody has.
fn known_holder(lock_file: &LockFile, probe: &OfdLock, device: &Device) -> Option<String> {
    let held = holders::holdings(lock_file, probe, Span::of(&device.uuid)).unwrap_or_default();
    let holder = held.foremost(None)?;
    let what = if holder.kind == "lease" {
        "leased by"
    } else {
        "reserved for"
    };
    Some(format!("{what} {}", holder.who()))
}
