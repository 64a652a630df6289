//! Running the program on the CPUs near its device, with a share on the part of them that belongs to the share. The mask is set in this
//! process just before it becomes the program, and is inherited; nothing here keeps a program from running.
//!
//! `topology` finds the cores in the mask, `frame` the units that they are divided by, `part` those of the share, `threads` is what the
//! program is told.

mod frame;
mod part;
mod threads;
mod topology;

use std::path::Path;

use getgpu_common::cpus::{CpuSet, mask};
use getgpu_common::diag::Diag;
use getgpu_common::error::reason;
use getgpu_common::inventory::Device;
use getgpu_common::settings::Settings;

use crate::helper;
use crate::lease::Lease;
use crate::ready::Ready;

/// Where the kernel tells about CPUs (Documentation/admin-guide/cputopology.rst).
const CPUS: &str = "/sys/devices/system/cpu";

/// Binds this process, if that is set. It comes last: whatever is started before is not bound with it, such as an MPS daemon.
pub fn join(ready: &mut Ready, devices: &[Device], settings: &Settings, diag: &Diag) {
    let Some(lease) = ready.lease.as_ref().filter(|_| settings.bind) else { return };
    match bind(lease, devices, settings) {
        Ok((cpus, cores)) => {
            diag.note(&format!("bound to CPUs {cpus} ({cores} {})", if cores == 1 { "core" } else { "cores" }));
            let unset = |(name, _): &(String, String)| std::env::var_os(name).is_none();
            ready.variables.extend(threads::of(cores).into_iter().filter(unset));
        }
        Err(why) => diag.note(&format!("{why}: not bound")),
    }
}

/// The CPUs that this process is bound to now, and how many cores they are; else why it is not.
fn bind(lease: &Lease, devices: &[Device], settings: &Settings) -> Result<(CpuSet, usize), String> {
    let mask = mask::of(0).map_err(|error| format!("the mask of CPUs cannot be read: {}", reason(&error)))?;
    let root = Path::new(CPUS);
    let (mut ours, mut near) = (CpuSet::default(), CpuSet::default());
    for device in devices {
        let cpus = cpus_near(device, settings)?;
        let cores = topology::cores(root, &cpus.within(&mask));
        let all = frame::of(lease, &device.uuid, &mask);
        ours = ours.and(&part::of(&cores, lease.units(&device.uuid).unwrap_or(&all), &all));
        near = near.and(&cpus);
    }
    if ours.is_empty() {
        return Err(format!("the device's CPUs ({near}) are none of those that this process may run on ({mask})"));
    }
    if ours != mask {
        mask::set(&ours).map_err(|error| format!("CPUs {ours}: {}", reason(&error)))?;
    }
    let cores = topology::cores(root, &ours).len();
    Ok((ours, cores))
}

/// What NVML tells of the device: where it was chosen, else in a session for this alone.
fn cpus_near(device: &Device, settings: &Settings) -> Result<CpuSet, String> {
    let asked = || helper::ask(settings, |client| client.near_uuid(&device.uuid)).and_then(|told| told);
    device.cpus.clone().map_or_else(asked, Ok).map_err(|failure| format!("{}: {}", device.uuid, failure.message))
}
