//! `getgpu INDEX --hold=PID` for a program that runs there already: the device is held for it, if it and
//! what it has started are all that uses the device. This is how programs that were started by hand move over.

use std::collections::HashSet;

use getgpu_choose::{Chooser, Offer, Rejected, choice::device_claim};
use getgpu_linux::procfs::{self, ancestry, namespaces};
use getgpu_linux::users;
use getgpu_lock::{Claim, OfdLock, Side};
use getgpu_model::{Activity, Detail, Device, Failure};

/// A claim on the device of the program `pid`, or who else uses it. None where something else is the
/// matter.
pub fn claim(
    chooser: &mut Chooser<'_, '_>,
    probe: &OfdLock,
    device: &Device,
    pid: i32,
) -> Result<Option<Offer<Claim>>, Failure> {
    let (lock_file, request) = (chooser.lock_file, chooser.request);
    let side = Side::Reservation;
    let Ok(claim) = device_claim::claim(lock_file, probe, side, request, device)? else {
        return Ok(None);
    };
    let usage = chooser.node.nvml()?.usage(device, Detail::Full)?;
    let pids: HashSet<i32> = usage.processes.iter().map(|one| one.pid as i32).collect();
    let is_own = |process: &i32| comes_from(*process, pid, request.user);
    if usage.activity != Activity::Busy || !pids.iter().any(is_own) {
        return Ok(None);
    }
    let other = pids.iter().find(|process| !is_own(process));
    Ok(Some(other.map_or(Ok(claim), |other| {
        let other = users::name_process(*other);
        Err(Rejected::Busy(format!("also used by {other}")))
    })))
}

/// Whether a process is `pid`, or was started by it or by one that it started, and is of the same user:
/// a device is not held for one user that a program of another one uses. In a pid namespace of its own
/// NVML's numbers may be those of other processes.
fn comes_from(process: i32, pid: i32, user: u32) -> bool {
    if !namespaces::host_pids() || procfs::euid(process) != Some(user) {
        return false;
    }
    let mut above = ancestry::ancestors(process, 64).into_iter();
    process == pid || above.any(|stat| stat.pid == pid)
}
