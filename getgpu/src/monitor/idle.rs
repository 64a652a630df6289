//! `max_idle`: whether anybody uses what is held. At 80 % of the limit the user is warned;
//! at the limit a reservation of `--hold` is reported, or ended, as the site says
//! (`idle_action`), and a lease is reported.

use std::time::Duration;

use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Activity, Detail};
use getgpu_common::lock::Side;
use getgpu_common::lock::holder_args::Until;
use getgpu_common::procfs::Stat;
use getgpu_common::settings::Settings;
use getgpu_common::settings::value_types::IdleAction;
use getgpu_common::sys;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::held::{Held, HeldDevices};
use super::notice::{self, What};
use super::spell::{self, Act, Clocks, Look};
use crate::invocation::open;

/// Looks at everything that has a limit.
pub fn look(held: &mut HeldDevices, settings: &Settings, limit: Duration) -> Result<(), Failure> {
    let leased = held.leased();
    let mut watched: Vec<&mut Held> = held.iter_mut().filter(|held| has_limit(held)).collect();
    if watched.is_empty() {
        return Ok(());
    }
    let found: Vec<Look> = open(settings)?.ask_all(|client| {
        let mut looks = Vec::new();
        for held in &watched {
            looks.push(look_at(held, &leased, |device| {
                Ok(client.usage(device, Detail::Uuid)?.activity)
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
) -> Result<Look, Failure> {
    let mut found = Look::Empty;
    for device in &held.devices {
        if held.side == Side::Reservation && leased.contains(device) {
            return Ok(Look::Used);
        }
        match activity(device)? {
            Activity::Idle => {}
            Activity::Busy => return Ok(Look::Used),
            Activity::Unknown => found = Look::Unknown,
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
            if what == (What::Reservation { ends: true }) {
                end(held);
            }
        }
    }
}

/// Ends the holder, and so the reservation.
fn end(held: &Held) {
    let Some(holder) = &held.reservation else {
        return;
    };
    let fd = sys::pidfd(holder.pid);
    // Looked at after the pidfd was opened: the number is still the holder's.
    let is_same = Stat::read(holder.pid).is_some_and(|stat| stat.start == holder.start);
    if is_same {
        crate::release::log_end(holder);
        let _ = match fd {
            Ok(fd) => sys::pidfd_signal(&fd, libc::SIGTERM),
            Err(_) => kill(Pid::from_raw(holder.pid), Signal::SIGTERM).map_err(Into::into),
        };
    }
}
