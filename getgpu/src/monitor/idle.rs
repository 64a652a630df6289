//! `max_idle`: whether any process uses what is held. At 80 % of the limit the user is
//! warned; at the limit a reservation of `--hold` is reported, or ended, as the site says
//! (`idle_action`), and a lease is reported.

use std::time::Duration;

use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Activity, Detail};
use getgpu_common::lock::Side;
use getgpu_common::lock::holder_args::Until;
use getgpu_common::settings::Settings;
use getgpu_common::settings::value_types::IdleAction;

use super::held::{Held, HeldDevices};
use super::notice::{self, What};
use super::spell::{self, Act, Clocks, DeviceUse};
use crate::invocation::node;
use crate::release;

/// Looks at everything that has a limit.
pub fn check(held: &mut HeldDevices, settings: &Settings, limit: Duration) -> Result<(), Failure> {
    let leased = held.leased();
    let mut watched: Vec<&mut Held> = held.iter_mut().filter(|held| has_limit(held)).collect();
    if watched.is_empty() {
        return Ok(());
    }
    let found: Vec<DeviceUse> = node(settings).ask(|node| {
        let mut looks = Vec::new();
        for held in &watched {
            looks.push(look_at(held, &leased, |device| {
                Ok(node.nvml()?.usage(device, Detail::Uuid)?.activity)
            })?);
        }
        Ok(looks)
    })?;
    for (held, found) in watched.iter_mut().zip(found) {
        let act;
        (held.spell, act) = spell::next(held.spell, found, Clocks::now(), limit);
        take(act, held, settings, limit);
    }
    Ok(())
}

/// Leases and reservations of `--hold`; what a site holds until it is released is its own
/// affair.
fn has_limit(held: &Held) -> bool {
    match &held.reservation {
        None => held.side == Side::Lease,
        Some(holder) => matches!(holder.args.until, Until::Over(..)),
    }
}

/// What NVML does not tell is not empty, and a reservation is used by a lease inside it.
fn look_at(
    held: &Held,
    leased: &[Uuid],
    mut activity: impl FnMut(&Uuid) -> Result<Activity, Failure>,
) -> Result<DeviceUse, Failure> {
    let mut found = DeviceUse::Empty;
    for device in &held.devices {
        if held.side == Side::Reservation && leased.contains(device) {
            return Ok(DeviceUse::Used);
        }
        match activity(device)? {
            Activity::Idle => {}
            Activity::Busy => return Ok(DeviceUse::Used),
            Activity::Unknown => found = DeviceUse::Unknown,
        }
    }
    Ok(found)
}

fn take(act: Act, held: &Held, settings: &Settings, limit: Duration) {
    let what = match held.side {
        Side::Lease => What::Lease,
        Side::Reservation => What::Reservation {
            ends: settings.idle_action == IdleAction::End,
        },
    };
    match act {
        Act::Nothing => {}
        Act::Warn => notice::send(held, &notice::warning(what, limit), "warned"),
        Act::Report => {
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
