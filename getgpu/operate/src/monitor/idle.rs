//! `max_idle`: whether any process uses what is held, by the limit of its user. At 80 % of it
//! the user is warned; at the limit a reservation of `--hold` is reported, or ended, as the
//! site says (`idle_action`), and a lease is reported.

use std::time::{Duration, Instant};

use getgpu_ask::Node;
use getgpu_lock::{LockFile, Role, Until};
use getgpu_model::{Activity, Detail, Failure, Inventory, Uuid};
use getgpu_settings::{IdleAction, Settings};

use super::held::{HeldDevice, HeldDevices};
use super::notice::{self, What};
use super::spell::{self, Notice};
use getgpu_core::call::node;
use getgpu_core::ended_reservation::EndedReservation;
use getgpu_core::release;

/// Puts the limits of users in force; gives the shortest that anything held has.
pub fn set_limits(
    held: &mut HeldDevices,
    mut limit_of: impl FnMut(Option<u32>) -> Option<Duration>,
) -> Option<Duration> {
    for held in held.iter_mut() {
        let uid = has_limit(held).then_some(held.holder.uid);
        held.max_idle = uid.and_then(&mut limit_of);
        held.spell = held.spell.filter(|_| held.max_idle.is_some());
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
    let leased = held.leased();
    let mut watched: Vec<(&mut HeldDevice, Duration)> = held
        .iter_mut()
        .filter_map(|held| held.max_idle.map(|limit| (held, limit)))
        .collect();
    let found: Vec<bool> = node(settings).ask(|node| {
        let looks = watched
            .iter()
            .map(|(held, _)| is_empty(node, inventory, held, &leased));
        looks.collect()
    })?;
    for ((held, limit), empty) in watched.iter_mut().zip(found) {
        let due;
        (held.spell, due) = spell::next(held.spell, empty, Instant::now(), *limit);
        if let Some(notice) = due {
            act_on(notice, lock_file, held, settings, *limit);
        }
    }
    Ok(())
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

/// What NVML does not tell is not empty, and a reservation is used by a lease inside it.
fn is_empty(
    node: &mut Node<'_>,
    inventory: &Inventory,
    held: &HeldDevice,
    leased: &[Uuid],
) -> Result<bool, Failure> {
    for uuid in &held.devices {
        let leased_inside = !held.leased && leased.contains(uuid);
        let Some(device) = inventory.device(uuid).filter(|_| !leased_inside) else {
            return Ok(false);
        };
        if node.nvml()?.usage(device, Detail::Uuid)?.activity != Activity::Idle {
            return Ok(false);
        }
    }
    Ok(true)
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
        Notice::Warning => notice::send(held, &notice::warning(what, limit), "warned"),
        Notice::Report => {
            notice::send(held, &notice::report(what, limit), "reported");
            if what == (What::Reservation { ends: true })
                && let Some(holder) = &held.reservation
            {
                let reserved = EndedReservation::of(lock_file, holder);
                if release::ask_to_end(holder)
                    && let Some(reserved) = reserved
                {
                    reserved.log();
                }
            }
        }
    }
}
