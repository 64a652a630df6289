//! `max_idle`: whether any process uses what is held, and computes, by the limit of its user. At 80 %
//! of it the user is warned; at the limit a reservation of `--hold` is reported, or ended, as the site
//! says (`idle_action`), and a lease is reported. Programs that compute nothing are reported only.

use std::time::{Duration, Instant};

use getgpu_ask::Node;
use getgpu_lock::{LockFile, Role, Until};
use getgpu_model::{Activity, Detail, Device, Failure, Inventory, Uuid};
use getgpu_settings::{IdleAction, Settings};

use super::held::{HeldDevice, HeldDevices};
use super::notice::{self, What};
use super::spell::{self, Notice};
use getgpu_core::call::node;
use getgpu_core::ended_reservation;
use getgpu_core::release;

/// Puts the limits of users in force; gives the shortest that anything held has.
pub fn set_limits(
    held: &mut HeldDevices,
    mut limit_of: impl FnMut(Option<u32>) -> Option<Duration>,
) -> Option<Duration> {
    for held in held.iter_mut() {
        let uid = has_limit(held).then_some(held.holder.uid);
        held.max_idle = uid.and_then(&mut limit_of);
        if held.max_idle.is_none() {
            held.enter(None, None);
        }
    }
    held.iter_mut().filter_map(|held| held.max_idle).min()
}

/// Looks at everything that has a limit.
pub fn check(
    lock_file: &LockFile,
    held: &mut HeldDevices,
    inventory: &Inventory,
    settings: &Settings,
) -> Result<(), Failure> {
    let leased = held.leased_for(Duration::ZERO);
    let mut watched: Vec<(&mut HeldDevice, Duration)> = held
        .iter_mut()
        .filter_map(|held| held.max_idle.map(|limit| (held, limit)))
        .collect();
    let found: Vec<Found> = node(settings).ask(|node| {
        let looks = watched
            .iter()
            .map(|(held, _)| look(node, inventory, held, &leased));
        let looks: Vec<Option<Vec<&Device>>> = looks.collect::<Result<_, Failure>>()?;
        // Last, since it takes longest, and a GPU that hangs at it tells nothing more.
        let mut busy: Vec<&Device> = looks.iter().flatten().flatten().copied().collect();
        busy.sort_by_key(|device| (device.gpu, device.slot));
        let told = node.nvml()?.utilizations(&busy)?;
        let at_rest = busy.iter().zip(told).filter(|(_, told)| *told == Some(0));
        let at_rest: Vec<&Uuid> = at_rest.map(|(device, _)| &device.uuid).collect();
        Ok(looks.iter().map(|look| found(look, &at_rest)).collect())
    })?;
    for ((held, limit), found) in watched.iter_mut().zip(found) {
        let (now, limit) = (Instant::now(), *limit);
        let (empty, if_empty) = spell::next(held.empty, found == Found::Empty, now, limit);
        let (idle, if_idle) = spell::next(held.idle, found == Found::Idle, now, limit);
        held.enter(empty, idle);
        if let Some(notice) = if_empty {
            act_on(notice, lock_file, held, settings, limit);
        }
        if let Some(notice) = if_idle {
            let text = notice::of_idle(notice, held.leased, limit);
            notice::send(held, notice, &text);
        }
    }
    Ok(())
}

/// What a look at the devices that something holds has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// No program is there.
    Empty,
    /// Programs are there, and their GPUs have computed nothing of late.
    Idle,
    /// Another case, or NVML does not tell.
    Used,
}

/// Leases and reservations of `--hold`; what a site holds until it is released is its own
/// affair, and what a task of Slurm has is the task's.
fn has_limit(held: &HeldDevice) -> bool {
    match &held.reservation {
        None => held.leased,
        Some(holder) => {
            matches!(holder.args.until, Until::Over(..)) && holder.args.role != Role::Task
        }
    }
}

/// The devices with programs; none: it is in use, or NVML does not tell. A reservation is used by a
/// lease inside it.
fn look<'i>(
    node: &mut Node<'_>,
    inventory: &'i Inventory,
    held: &HeldDevice,
    leased: &[Uuid],
) -> Result<Option<Vec<&'i Device>>, Failure> {
    let mut busy = Vec::new();
    for uuid in &held.devices {
        let leased_inside = !held.leased && leased.contains(uuid);
        let Some(device) = inventory.device(uuid).filter(|_| !leased_inside) else {
            return Ok(None);
        };
        match node.nvml()?.usage(device, Detail::Uuid)?.activity {
            Activity::Idle => {}
            Activity::Busy => busy.push(device),
            _ => return Ok(None),
        }
    }
    Ok(Some(busy))
}

/// Of shares on a device, and of the devices of one GPU instance, all are idle, or none.
fn found(look: &Option<Vec<&Device>>, at_rest: &[&Uuid]) -> Found {
    match look {
        Some(busy) if busy.is_empty() => Found::Empty,
        Some(busy) if busy.iter().all(|device| at_rest.contains(&&device.uuid)) => Found::Idle,
        _ => Found::Used,
    }
}

fn act_on(
    notice: Notice,
    lock_file: &LockFile,
    held: &HeldDevice,
    settings: &Settings,
    limit: Duration,
) {
    let ends = settings.idle_action == IdleAction::End;
    let what = if held.leased {
        What::Lease
    } else {
        What::Reservation { ends }
    };
    match notice {
        Notice::Warning => notice::send(held, notice, &notice::warning(what, limit)),
        Notice::Report => {
            notice::send(held, notice, &notice::report(what, limit));
            if what == (What::Reservation { ends: true })
                && let Some(holder) = &held.reservation
            {
                let line = ended_reservation::line(lock_file, holder);
                if release::ask_to_end(holder)
                    && let Some(line) = line
                {
                    ended_reservation::log(holder, &line);
                }
            }
        }
    }
}
