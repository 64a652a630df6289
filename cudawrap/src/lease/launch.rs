//! From a lease to what the program is started with: the variables that name its device,
//! the lease, MPS and CPUs. The lease is written to the site's log on the way.

use getgpu_model::lease_tag;
use std::path::Path;

use getgpu_choose::{Record, cuda_index, syslog};
use getgpu_linux::program_name;
use getgpu_model::{Diag, Failure, Inventory, Job, Kind, Uuid, exit, frameworks};
use getgpu_settings::{Log, Settings};

use crate::bind;
use crate::call::{CudawrapCall, Lessee};
use crate::lease::Lease;
use crate::lease::choose::{Choice, uuids};
use crate::lease::handover::LaunchSpec;
use crate::lease::leased::lease;
use crate::mps;

/// Leases what was chosen; what the program is started with.
///
/// # Errors
///
/// The devices cannot be leased, or MPS was asked for and cannot be had: the program is not to be run then.
pub fn launch(call: &CudawrapCall<'_>, mut choice: Choice) -> Result<LaunchSpec, Failure> {
    let (lease, shown) = lease(call, &mut choice)?;
    let mut spec = LaunchSpec {
        variables: visible(shown.as_deref(), choice.node.as_deref())?,
        lease,
        ..LaunchSpec::default()
    };
    let tag = call.tag.clone();
    spec.variables
        .extend(tag.map(|tag| (lease_tag::VARIABLE.to_owned(), tag)));
    let Some(lease) = &spec.lease else {
        return Ok(spec);
    };
    for device in &choice.devices {
        call.diag.note(&format!("{}: leased", device.uuid));
    }
    log(call, &uuids(&choice.devices), lease.part);
    if call.settings.framework_memory && lease.part < 1.0 {
        spec.variables.extend(for_frameworks(lease, call.settings));
    }
    mps::join(call, &mut spec, &choice.devices)?;
    bind::join(call, &mut spec, &choice.devices, &choice.neighbours);
    Ok(spec)
}

/// The variables that name the program's devices, by their indices in the order of NVML if it is to
/// have numbers.
fn visible(
    shown: Option<&[Uuid]>,
    node: Option<&Inventory>,
) -> Result<Vec<(String, String)>, Failure> {
    let named = |value| ("CUDA_VISIBLE_DEVICES".to_owned(), value);
    let Some(shown) = shown else {
        return Ok(Vec::new());
    };
    let Some(node) = node else {
        return Ok(vec![named(Uuid::join(shown))]);
    };
    let each = shown
        .iter()
        .map(|uuid| cuda_index(uuid, node, "names = index"));
    let indices = each.map(|index| index.map(|index| index.to_string()));
    let indices = indices.collect::<Result<Vec<_>, _>>()?.join(",");
    let order = ("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned());
    Ok(vec![named(indices), order])
}

/// The variables of frameworks for a part of a device, unless the user set others. What the
/// enclosing part set is of that part, and no wish of the user's; `cudawrap --auto` has set
/// what the share alone says, before there was a lease.
fn for_frameworks(lease: &Lease, settings: &Settings) -> Vec<(String, String)> {
    let above = lease.enclosing_part().map(frameworks::variables);
    let in_advance = settings.share.map(frameworks::known_in_advance);
    let own = frameworks::variables(lease.part).into_iter();
    let own = own.filter(|(name, _)| {
        std::env::var_os(name).is_none_or(|value| {
            let above = above.iter().flatten();
            let mut by_cudawrap = above.chain(in_advance.iter().flatten());
            by_cudawrap.any(|(known, set)| known == name && value == **set)
        })
    });
    own.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Writes a lease down, where the site wants that.
fn log(call: &CudawrapCall<'_>, devices: &[Uuid], part: f64) {
    if call.settings.log == Log::None {
        return;
    }
    let Lessee { program, pid } = call.lessee;
    let (name, job) = (program_name(program), Job::own());
    let record = Record {
        by: "cudawrap",
        pid,
        what: "leased",
        devices,
        uid: nix::unistd::geteuid().as_raw(),
        program: ("program", &name),
        share: part,
        tag: call.tag.as_deref(),
        job: job.as_ref(),
        waited: call.began.elapsed(),
    };
    record.send(call.settings);
}

/// Writes down that a program got no device, where the site wants that.
pub fn log_refusal(settings: &Settings, program: &Path, tag: Option<&str>, failure: &Failure) {
    if matches!(failure.kind, Kind::NoneFree | Kind::Refused) {
        syslog::refused(
            settings,
            "cudawrap",
            &program_name(program),
            tag,
            &failure.message,
        );
    }
}

/// Says what went wrong and gives the exit status.
pub fn fail(diag: &Diag, failure: &Failure) -> i32 {
    diag.error(failure);
    exit::cudawrap(failure.kind)
}
