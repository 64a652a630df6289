//! From a lease to what the program is started with: the variables that name its device,
//! the lease, MPS and CPUs. The lease is written to the site's log on the way.

use std::path::Path;

use getgpu_common::diag::Diag;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::exit;
use getgpu_common::ident::Uuid;
use getgpu_common::job::Job;
use getgpu_common::resolve_program::program_name;
use getgpu_common::settings::{Log, Settings};
use getgpu_common::syslog::{self, Record};

use crate::bind;
use crate::call::{Call, Lessee};
use crate::choose::uuids;
use crate::launch_spec::LaunchSpec;
use crate::lease_choice::Leased;
use crate::mps;

/// What the program is started with.
///
/// # Errors
///
/// MPS was asked for and cannot be had: the program is not to be run then.
pub fn launch(call: &Call<'_>, leased: Leased) -> Result<LaunchSpec, Failure> {
    let shown = leased.shown.as_deref();
    let Some(lease) = leased.lease else {
        return Ok(LaunchSpec::without_lease(shown));
    };
    for device in &leased.devices {
        call.diag.note(&format!("{}: leased", device.uuid));
    }
    log(call, &uuids(&leased.devices), lease.part);
    let mut spec = LaunchSpec::leased(shown, lease, call.settings);
    mps::join(call, &mut spec, &leased.devices)?;
    bind::join(call, &mut spec, &leased.devices, &leased.request);
    Ok(spec)
}

/// Writes a lease down, where the site wants that.
fn log(call: &Call<'_>, devices: &[Uuid], part: f64) {
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
        tag: None,
        job: job.as_ref(),
        waited: call.began.elapsed(),
    };
    record.send(call.settings);
}

/// Writes down that a program got no device, where the site wants that.
pub fn log_refusal(settings: &Settings, program: &Path, failure: &Failure) {
    if matches!(failure.kind, Kind::NoneFree | Kind::Refused) {
        syslog::refused(
            settings,
            "cudawrap",
            &program_name(program),
            &failure.message,
        );
    }
}

/// Says what went wrong and gives the exit status.
pub fn fail(diag: &Diag, failure: &Failure) -> i32 {
    diag.error(failure);
    exit::cudawrap(failure.kind)
}
