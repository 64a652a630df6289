//! One look whether anybody uses the devices of a reservation: a lease on one of them is
//! use, and so is a process that NVML shows. What NVML does not tell is not empty.

use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Activity, Detail};
use getgpu_common::lock::{LockFile, Span, holders};
use getgpu_common::settings::Settings;

use super::spell::Look;
use crate::invocation::open;

pub fn look(settings: &Settings, lock_file: &LockFile, devices: &[Uuid]) -> Look {
    match is_leased(lock_file, devices) {
        Ok(true) => Look::Used,
        Ok(false) => activity(settings, devices).unwrap_or(Look::Unknown),
        Err(_) => Look::Unknown,
    }
}

/// Whether a program of ours runs there: its lease is never ended, whatever it does.
fn is_leased(lock_file: &LockFile, devices: &[Uuid]) -> Result<bool, Failure> {
    let probe = lock_file.open()?;
    for device in devices {
        if holders::of(lock_file, &probe, Span::of(device))?.leased > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn activity(settings: &Settings, devices: &[Uuid]) -> Result<Look, Failure> {
    open(settings)?.ask_all(|client| {
        let mut found = Look::Empty;
        for device in devices {
            match client.usage(device, Detail::Uuid)?.activity {
                Activity::Idle => {}
                Activity::Busy => return Ok(Look::Used),
                Activity::Unknown => found = Look::Unknown,
            }
        }
        Ok(found)
    })
}
