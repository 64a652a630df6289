//! The mask that is divided among the shares of a device: the one that this process has, or, where the device was leased before around it,
//! the one from before that. So a program inside a bound one does not get a part of a part.

use std::os::fd::RawFd;

use getgpu_common::cpus::{CpuSet, mask};
use getgpu_common::procfs::ancestry;

use crate::lease::Lease;

/// How many ancestors are looked at.
const MOST: usize = 64;

/// The mask of the nearest of this process and its ancestors that does not have a lease on the devices already; `own` is this one's.
pub fn of(lease: &Lease, own: &CpuSet) -> CpuSet {
    let ours: Vec<RawFd> = lease.descriptors().collect();
    let inherited = lease.had_before("self", &ours);
    let mut outside = None;
    for (place, parent) in ancestry::ancestors(std::process::id() as i32, MOST).into_iter().enumerate() {
        if !lease.had_before(&parent.pid.to_string(), &[]) {
            outside = (inherited || place > 0).then_some(parent.pid);
            break;
        }
    }
    outside.and_then(|pid| mask::of(pid).ok()).unwrap_or_else(|| own.clone())
}
