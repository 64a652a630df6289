//! What the CPUs of this process are divided by: all units of a device, or, inside a
//! bound program with a share, the units of that share. So a program inside a bound one
//! does not get a part of a part.

use std::os::fd::RawFd;

use getgpu_common::cpus::{CpuSet, mask};
use getgpu_common::ident::Uuid;
use getgpu_common::lock::Units;
use getgpu_common::procfs::ancestry;

use crate::lease::Lease;

/// How many ancestors are looked at.
const MOST: usize = 64;

/// The units of a device to which the mask `own` of this process belongs as a whole.
///
/// The mask of whoever has a share around us is its part already, if it is another one
/// than outside of the share.
pub fn of(lease: &Lease, device: &Uuid, own: &CpuSet) -> Units {
    let ours: Vec<RawFd> = lease.descriptors().collect();
    let mut around = lease.shown(device, "self", &ours);
    let mut outside = None;
    for ancestor in ancestry::ancestors(std::process::id() as i32, MOST) {
        let units = lease.shown(device, &ancestor.pid.to_string(), &[]);
        if units.is_empty() {
            outside = mask::of(ancestor.pid).ok();
            break;
        }
        if around.is_empty() {
            around = units;
        }
    }
    let bound = outside.is_some_and(|outside| outside != *own);
    if around.is_empty() || !bound {
        Units::whole()
    } else {
        around
    }
}
