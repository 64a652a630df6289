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

use getgpu_ask::{Look, Node};
use getgpu_choose::Granted;
use getgpu_model::{CpuSet, Device, Failure, Units, Uuid, cpus::mask, quantity, reason};
use getgpu_settings::Settings;

use crate::call::CudawrapCall;
use crate::lease::Lease;
use crate::lease::handover::LaunchSpec;
use crate::lease::helper;
use mask_origin::MaskOrigin;

/// Where the kernel tells about CPUs (Documentation/admin-guide/cputopology.rst).
const CPUS: &str = "/sys/devices/system/cpu";

/// The programs and devices that the CPUs near a device are divided among.
#[derive(Clone, Debug, Default)]
pub struct CpuNeighbours {
    /// The devices that programs may run on, each with the CPUs near it: those of a grant of
    /// several, else those that are allowed; none where a job was granted one device.
    pub devices: Vec<(Uuid, CpuSet)>,
    /// How many programs one launcher has started on this node, this one among them.
    pub programs: Option<usize>,
    /// That launcher has more than one device for them.
    pub has_several_devices: bool,
    /// The place among the devices of the one that this program was to have.
    pub seat: Option<usize>,
}

impl CpuNeighbours {
    /// Finds the devices and the CPUs near them, in the order of the grant where there is one.
    ///
    /// # Errors
    ///
    /// NVML does not list the node.
    pub fn note(&mut self, node: &mut Node<'_>, request: &Granted) -> Result<(), Failure> {
        // Programs on the other GPUs are near the same CPUs.
        let everywhere = Look {
            gpus: Vec::new(),
            ..request.look()
        };
        let inventory =
            node.note_cpus(everywhere, |device: &Device| request.filter.allows(device))?;
        let grant = request.filter.grant.as_ref();
        if grant.is_some_and(|grant| grant.len() == 1) {
            return Ok(());
        }
        let devices = inventory.devices.iter();
        let allowed = devices.filter(|device| request.filter.allows(device));
        self.devices = allowed
            .filter_map(|device| Some((device.uuid.clone(), device.cpus.clone()?)))
            .collect();
        self.devices
            .sort_by_key(|(uuid, _)| request.filter.place_in_grant(uuid));
        Ok(())
    }

    /// The devices, where each program has one, with the device that this one has in the
    /// end in its place: others may have taken the one that it was to have.
    fn seated(&self, own: &Uuid) -> Vec<(Uuid, CpuSet)> {
        let mut devices = self.devices.clone();
        let each_has_one = self.programs == Some(devices.len());
        if let Some(seat) = self.seat.filter(|_| each_has_one) {
            match devices.iter().position(|(uuid, _)| uuid == own) {
                Some(known) => devices.swap(known, seat),
                None => devices[seat].0 = own.clone(),
            }
        }
        devices
    }
}

/// The other programs that the CPUs are divided among.
struct Around<'a> {
    call: &'a CudawrapCall<'a>,
    neighbours: &'a CpuNeighbours,
}

/// Binds this process, if that is set. It comes last: whatever is started before is not
/// bound with it, such as an MPS daemon.
pub fn join(
    call: &CudawrapCall<'_>,
    ready: &mut LaunchSpec,
    devices: &[Device],
    neighbours: &CpuNeighbours,
) {
    let diag = call.diag;
    let Some(lease) = ready.lease.as_ref().filter(|_| call.settings.bind) else {
        return;
    };
    match bind(lease, devices, &Around { call, neighbours }) {
        Ok(CpuPart { cpus, alone }) => {
            let cores = topology::cores(Path::new(CPUS), &cpus).len();
            let counted = quantity::counted(cores, "core");
            diag.note(&format!("bound to CPUs {cpus} ({counted})"));
            let bound = (mask_origin::BOUND.to_owned(), cpus.to_string());
            ready.variables.push(bound);
            let threads = threads::variables(cores, alone).into_iter();
            let unset = threads.filter(|(name, _)| std::env::var_os(name).is_none());
            ready.variables.extend(unset);
        }
        Err(why) => diag.note(&format!("{why}: not bound")),
    }
}

/// Binds; else why not.
fn bind(lease: &Lease, devices: &[Device], around: &Around<'_>) -> Result<CpuPart, String> {
    let mask = mask::of_process(0)
        .map_err(|error| format!("the CPU mask cannot be read: {}", reason(&error)))?;
    let root = Path::new(CPUS);
    let origin = mask_origin::find(root, &mask, around.neighbours.programs);
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
/// devices, and one that was set for this program alone not among shares either.
fn divide(
    cores: &[CpuSet],
    origin: MaskOrigin,
    lease: &Lease,
    device: &Uuid,
    around: &Around<'_>,
) -> CpuPart {
    let others = around.neighbours;
    let has_several = !others.devices.is_empty() || others.has_several_devices;
    // A batch job has its mask of CPUs to itself where it was granted one device, and not one for
    // each of several tasks.
    let alone_on_node = around.call.environment.batch_job && !has_several;
    let (own, alone) = match origin {
        MaskOrigin::OwnOfProgram => {
            let cpus = part::cpus_of(cores, &Units::whole(), &Units::whole());
            return CpuPart { cpus, alone: true };
        }
        MaskOrigin::Set => (cores.to_vec(), alone_on_node),
        MaskOrigin::Unset | MaskOrigin::Bound => {
            let devices = others.seated(device);
            let (own, alone) = neighbours::divide(cores, device, &devices);
            (own, alone && (!devices.is_empty() || alone_on_node))
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
