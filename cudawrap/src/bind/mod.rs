//! Running the program on the CPUs near its device, with a share on the part of them that
//! belongs to the share. The mask is set in this process just before it becomes the
//! program, and is inherited; nothing here keeps a program from running.
//!
//! `topology` finds the cores in the mask, `neighbours` those of the device,
//! `enclosing_share` the units that they are divided by, `part` those of the share,
//! `threads` is what the program is told.

mod enclosing_share;
mod neighbours;
mod part;
mod threads;
mod topology;

use std::path::Path;

use getgpu_common::cpus::{CpuSet, mask};
use getgpu_common::diag::Diag;
use getgpu_common::error::reason;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::nvml_client::Affinity;
use getgpu_common::settings::Settings;

use crate::helper;
use crate::launch_spec::LaunchSpec;
use crate::lease::Lease;

/// Where the kernel tells about CPUs (Documentation/admin-guide/cputopology.rst).
const CPUS: &str = "/sys/devices/system/cpu";

/// Which other programs the CPUs are divided among.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The devices that programs may run on, each with the CPUs near it: those of the
    /// grant, else those that are allowed on the node. Empty: this program's device is
    /// the only one that was granted.
    pub neighbours: Vec<(Uuid, CpuSet)>,
    /// The grant is a batch system's, so that a single device's job has its mask of CPUs
    /// to itself.
    pub in_job: bool,
}

/// What this process is bound to.
struct Bound {
    cpus: CpuSet,
    cores: usize,
    /// No other program has one of the cores, or a part of one.
    alone: bool,
}

/// Binds this process, if that is set. It comes last: whatever is started before is not
/// bound with it, such as an MPS daemon.
pub fn join(
    ready: &mut LaunchSpec,
    devices: &[Device],
    around: &Around,
    settings: &Settings,
    diag: &Diag,
) {
    let Some(lease) = ready.lease.as_ref().filter(|_| settings.bind) else {
        return;
    };
    match bind(lease, devices, around, settings) {
        Ok(Bound { cpus, cores, alone }) => {
            diag.note(&format!(
                "bound to CPUs {cpus} ({cores} {})",
                if cores == 1 { "core" } else { "cores" }
            ));
            let unset = |(name, _): &(String, String)| std::env::var_os(name).is_none();
            ready
                .variables
                .extend(threads::of(cores, alone).into_iter().filter(unset));
        }
        Err(why) => diag.note(&format!("{why}: not bound")),
    }
}

/// Binds; else why not.
fn bind(
    lease: &Lease,
    devices: &[Device],
    around: &Around,
    settings: &Settings,
) -> Result<Bound, String> {
    let mask =
        mask::of(0).map_err(|error| format!("the CPU mask cannot be read: {}", reason(&error)))?;
    let root = Path::new(CPUS);
    let (mut ours, mut near) = (CpuSet::default(), CpuSet::default());
    let mut alone = around.in_job || !around.neighbours.is_empty();
    for device in devices {
        let cpus = cpus_near(device, settings)?;
        let cores = topology::cores(root, &cpus.intersection(&mask));
        let own = neighbours::divide(&cores, &device.uuid, &around.neighbours);
        let all = enclosing_share::of(lease, &device.uuid, &mask);
        let units = lease.units(&device.uuid).unwrap_or(&all);
        ours = ours.union(&part::of(&own.cores, units, &all));
        alone &= own.alone && part::is_whole_cores(&own.cores, units, &all);
        near = near.union(&cpus);
    }
    if ours.is_empty() {
        return Err(format!(
            "this process may run on none of the device's CPUs ({near}), only on {mask}"
        ));
    }
    if ours != mask {
        mask::set(&ours).map_err(|error| format!("CPUs {ours}: {}", reason(&error)))?;
    }
    let cores = topology::cores(root, &ours).len();
    Ok(Bound {
        cpus: ours,
        cores,
        alone,
    })
}

/// What NVML tells of the device: where it was chosen, else in a session for this alone.
fn cpus_near(device: &Device, settings: &Settings) -> Result<CpuSet, String> {
    let asked = || match helper::ask(settings, |client| client.near_uuid(&device.uuid))? {
        Affinity::Near(cpus) => Ok(cpus),
        Affinity::Unknown(failure) => Err(failure),
    };
    device
        .cpus
        .clone()
        .map_or_else(asked, Ok)
        .map_err(|failure| format!("{}: {}", device.uuid, failure.message))
}
