//! Running the program on the CPUs near its device, with a share on the part of them that
//! belongs to the share. The mask is set in this process just before it becomes the
//! program, and is inherited; nothing here keeps a program from running.
//!
//! `mask_origin` tells among whom the mask is divided, `topology` finds the cores in it,
//! `neighbours` those of the device, `part` those of the share, `threads` is what the
//! program is told.

pub mod mask_origin;
mod neighbours;
mod part;
mod threads;
mod topology;

use std::path::Path;

use getgpu_choose::Request;
use getgpu_model::{CpuSet, Device, Units, Uuid, cpus::mask, reason};
use getgpu_settings::Settings;

use crate::call::CudawrapCall;
use crate::handover::LaunchSpec;
use crate::helper;
use crate::lease::Lease;
use mask_origin::MaskOrigin;

/// Where the kernel tells about CPUs (Documentation/admin-guide/cputopology.rst).
const CPUS: &str = "/sys/devices/system/cpu";

/// The other programs that the CPUs are divided among.
struct Around<'a> {
    call: &'a CudawrapCall<'a>,
    /// By which the device was chosen.
    request: &'a Request,
}

impl Around<'_> {
    /// How many ranks there are on this node.
    fn ranks(&self) -> Option<usize> {
        self.call.rank.and_then(|rank| rank.size)
    }

    /// A batch job has its mask of CPUs to itself where it was granted one device, and not
    /// one for each of several tasks.
    fn is_job_of_one_device(&self) -> bool {
        let rank = self.call.rank;
        let several = rank.is_some_and(|rank| rank.devices.is_some_and(|devices| devices > 1));
        self.call.environment.batch_job && self.request.placement.neighbours.is_empty() && !several
    }

    /// The neighbours, where each rank has one, with the device that this rank has in the
    /// end in its place: others may have taken the one that it was to have.
    fn seated(&self, own: &Uuid) -> Vec<(Uuid, CpuSet)> {
        let mut neighbours = self.request.placement.neighbours.clone();
        let each_has_one = self.ranks() == Some(neighbours.len());
        let nearest = self
            .request
            .placement
            .nearest
            .as_ref()
            .filter(|_| each_has_one);
        if let Some(block) = nearest.and_then(|nearest| nearest.block) {
            match neighbours.iter().position(|(uuid, _)| uuid == own) {
                Some(known) => neighbours.swap(known, block),
                None => neighbours[block].0 = own.clone(),
            }
        }
        neighbours
    }
}

/// Binds this process, if that is set. It comes last: whatever is started before is not
/// bound with it, such as an MPS daemon.
pub fn join(
    call: &CudawrapCall<'_>,
    ready: &mut LaunchSpec,
    devices: &[Device],
    request: &Request,
) {
    let diag = call.diag;
    let Some(lease) = ready.lease.as_ref().filter(|_| call.settings.bind) else {
        return;
    };
    match bind(lease, devices, &Around { call, request }) {
        Ok(CpuPart { cpus, alone }) => {
            let cores = topology::cores(Path::new(CPUS), &cpus).len();
            diag.note(&format!(
                "bound to CPUs {cpus} ({cores} {})",
                if cores == 1 { "core" } else { "cores" }
            ));
            let bound = (mask_origin::BOUND.to_owned(), cpus.to_string());
            ready.variables.push(bound);
            ready.variables.extend(
                threads::variables(cores, alone)
                    .into_iter()
                    .filter(|(name, _)| std::env::var_os(name).is_none()),
            );
        }
        Err(why) => diag.note(&format!("{why}: not bound")),
    }
}

/// Binds; else why not.
fn bind(lease: &Lease, devices: &[Device], around: &Around<'_>) -> Result<CpuPart, String> {
    let mask = mask::of_process(0)
        .map_err(|error| format!("the CPU mask cannot be read: {}", reason(&error)))?;
    let root = Path::new(CPUS);
    let origin = mask_origin::find(root, &mask, around.ranks());
    let (mut ours, mut near) = (CpuSet::default(), CpuSet::default());
    let mut alone = true;
    for device in devices {
        let cpus = cpus_near(device, around.call.settings)?;
        let cores = topology::cores(root, &cpus.intersection(&mask));
        let part = divide(&cores, origin, lease, &device.uuid, around);
        ours = ours.union(&part.cpus);
        alone &= part.alone;
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
    Ok(CpuPart { cpus: ours, alone })
}

/// What a program gets of the CPUs of a device, or of several.
struct CpuPart {
    cpus: CpuSet,
    /// It is of whole cores that no other program has.
    alone: bool,
}

/// The part of `cores` that is the program's own. A mask that was set is not divided among
/// devices, and a rank's own not among the shares of one either.
fn divide(
    cores: &[CpuSet],
    origin: MaskOrigin,
    lease: &Lease,
    device: &Uuid,
    around: &Around<'_>,
) -> CpuPart {
    let alone_on_node = around.is_job_of_one_device();
    let (own, alone) = match origin {
        MaskOrigin::OwnOfRank => {
            let cpus = part::cpus_of(cores, &Units::whole(), &Units::whole());
            return CpuPart { cpus, alone: true };
        }
        MaskOrigin::Set => (cores.to_vec(), alone_on_node),
        MaskOrigin::Unset | MaskOrigin::Bound => {
            let own = neighbours::divide(cores, device, &around.seated(device));
            let listed = !around.request.placement.neighbours.is_empty();
            (own.cores, own.alone && (listed || alone_on_node))
        }
    };
    let bound_to = lease.enclosing_lease(device);
    let all = bound_to.filter(|_| origin == MaskOrigin::Bound);
    let all = all.cloned().unwrap_or_else(Units::whole);
    let units = lease.units(device).unwrap_or(&all);
    CpuPart {
        cpus: part::cpus_of(&own, units, &all),
        alone: alone && part::is_whole_cores(&own, units, &all),
    }
}

/// What NVML tells of the device: where it was chosen, else in a session for this alone.
fn cpus_near(device: &Device, settings: &Settings) -> Result<CpuSet, String> {
    device
        .cpus
        .clone()
        .map_or_else(
            || helper::node(settings).ask(|node| node.nvml()?.affinity(&device.uuid))?,
            Ok,
        )
        .map_err(|failure| format!("{}: {}", device.uuid, failure.message))
}
