//! `max_per_user`: how much one user holds, counted while a lock on the user's own byte keeps the user's other calls from counting.
//! Shares count as parts where the kernel shows them, else whole; root may have any number.

use std::time::{Duration, Instant};

use crate::error::{Failure, Kind};
use crate::inventory::Inventory;
use crate::lock::claim::lock_error;
use crate::lock::{Description, Place, Side, Span, UNITS, Units, holders, layout};
use crate::procfs::{self, namespaces};

/// How long another call of the same user may count.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a user holds.
#[derive(Debug, Default)]
struct Held {
    units: i64,
    names: Vec<String>,
}

/// Counts what this user holds. With `more` units it must not be more than `most` devices; then the lock that was counted under is given back,
/// to be kept until what is taken now can be counted by the next call. The inner failure is being over the cap.
pub fn enter(
    place: &Place,
    probe: &Description,
    inventory: &Inventory,
    most: u32,
    more: i64,
) -> Result<Result<Description, Failure>, Failure> {
    let uid = nix::unistd::geteuid().as_raw();
    let guard = place.open()?;
    let began = Instant::now();
    while !guard.try_write(layout::uid(namespaces::host_uid(uid))).map_err(|e| lock_error(&e))? {
        if began.elapsed() >= PATIENCE {
            return Ok(Err(Failure::new(Kind::NoneFree, "another call of yours has been choosing for a second")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let held = count(place, probe, inventory, uid)?;
    if held.units + more <= i64::from(most) * UNITS {
        return Ok(Ok(guard));
    }
    let number = (held.units as f64 / UNITS as f64 * 100.0).round() / 100.0;
    let names = if held.names.is_empty() { String::new() } else { format!(": {}", held.names.join(", ")) };
    Ok(Err(Failure::new(Kind::NoneFree, format!("you hold {number} of at most {most}{names}"))
        .hint("getgpu --release UUID gives up a reservation; getgpu --list shows all")))
}

/// Whether this user could have `more` units now; takes nothing.
pub fn allows(
    place: &Place,
    probe: &Description,
    inventory: &Inventory,
    most: u32,
    more: i64,
) -> Result<bool, Failure> {
    let held = count(place, probe, inventory, nix::unistd::geteuid().as_raw())?;
    Ok(held.units + more <= i64::from(most) * UNITS)
}

fn count(place: &Place, probe: &Description, inventory: &Inventory, uid: u32) -> Result<Held, Failure> {
    let host = namespaces::host_uid(uid);
    let mut held = Held::default();
    for device in &inventory.devices {
        let span = Span::of(&device.uuid);
        let mut units = Units::default();
        let mut who = None;
        for side in [Side::Lease, Side::Reservation] {
            if !holders::uids(probe, span, side)?.contains(&host) {
                continue;
            }
            let (mut seen, mut all) = (Units::default(), true);
            for pid in holders::process_ids(probe, span, side)? {
                match procfs::euid(pid) {
                    Some(euid) if euid == uid => {
                        let shown = holders::units_of(place, pid, side, span);
                        all &= !shown.is_empty();
                        seen = seen.and(&shown);
                        who = who.or_else(|| procfs::comm(pid).map(|name| format!(" (pid {pid}, {name})")));
                    }
                    Some(_) => {}
                    // Over, and a child has what it held: whose, and how much, is not known.
                    None => all = false,
                }
            }
            units = units.and(&if seen.is_empty() || !all { Units::whole() } else { seen });
        }
        if !units.is_empty() {
            held.units += units.count();
            held.names.push(format!("{}{}", device.uuid, who.unwrap_or_default()));
        }
    }
    Ok(held)
}
