//! Giving up reservations: finds the holders by name and proof, ends them through a pidfd, waits until the devices are free.
//! A user gives up their own, root anybody's.

use std::time::Duration;

use getgpu_common::diag::Diag;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::lock::Place;
use getgpu_common::lock::own::{self, HolderLine};

use crate::reuse::end_holder;

/// How long a holder may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

fn mine(place: &Place) -> Vec<HolderLine> {
    let uid = nix::unistd::geteuid();
    own::reservations(place, (!uid.is_root()).then_some(uid.as_raw()))
}

/// Gives up the reservation of this device, or under this tag.
pub fn one(place: &Place, name: &str, diag: &Diag) -> Result<(), Failure> {
    let uuid = Uuid::parse(name);
    let named = |line: &HolderLine| match &uuid {
        Some(uuid) => line.devices.contains(uuid),
        None => line.tag.as_deref() == Some(name),
    };
    let found: Vec<HolderLine> = mine(place).into_iter().filter(named).collect();
    if found.is_empty() {
        return Err(Failure::new(Kind::NoneFree, format!("{name}: no reservation of yours"))
            .hint("getgpu --list shows who holds what"));
    }
    end(place, &found, diag)
}

/// Gives up all.
pub fn all(place: &Place, diag: &Diag) -> Result<(), Failure> {
    end(place, &mine(place), diag)
}

fn end(place: &Place, lines: &[HolderLine], diag: &Diag) -> Result<(), Failure> {
    for line in lines {
        let devices = line.devices.iter().map(Uuid::as_str).collect::<Vec<_>>().join(",");
        if !end_holder(place, line, PATIENCE) {
            return Err(Failure::new(
                Kind::LockPlace,
                format!("{devices}: the holder (pid {}) does not end", line.pid),
            ));
        }
        diag.note(&format!("{devices}: released (pid {})", line.pid));
    }
    Ok(())
}
