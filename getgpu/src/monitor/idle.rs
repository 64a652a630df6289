//! `max_idle`: whether any process uses what is held. At 80 % of the limit the user is
//! warned; at the limit a reservation of `--hold` is reported, or ended, as the site says
//! (`idle_action`), and a lease is reported.

use std::time::{Duration, Instant};

use getgpu_ask::Node;
use getgpu_lock::{Role, Until};
use getgpu_model::{Activity, Detail, Failure, Inventory, Uuid};
use getgpu_settings::{IdleAction, Settings};

use super::held::{HeldDevice, HeldDevices};
use super::notice::{self, What};
use super::spell::{self, Notice};
use crate::call::node;
use crate::release;

/// Looks at everything that has a limit.
pub fn check(
    held: &mut HeldDevices,
    inventory: &Inventory,
    settings: &Settings,
    limit: Duration,
) -> Result<(), Failure> {
    let leased = held.leased();
    let mut watched: Vec<&mut HeldDevice> =
        held.iter_mut().filter(|held| has_limit(held)).collect();
    if watched.is_empty() {
        return Ok(());
    }
    let found: Vec<bool> = node(settings).ask(|node| {
        let looks = watched
            .iter()
            .map(|held| is_empty(node, inventory, held, &leased));
        looks.collect()
    })?;
    for (held, empty) in watched.iter_mut().zip(found) {
        let due;
        (held.spell, due) = spell::next(held.spell, empty, Instant::now(), limit);
        if let Some(notice) = due {
            act_on(notice, held, settings, limit);
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

fn act_on(notice: Notice, held: &HeldDevice, settings: &Settings, limit: Duration) {
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
                && release::ask_to_end(holder)
            {
                release::log_end(holder);
            }
        }
    }
}
