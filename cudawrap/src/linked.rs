//! A linked program's story: nobody asked for cudawrap, so it says nothing, keeps what
//! CUDA_VISIBLE_DEVICES names, leases a device where it can, and runs the program with
//! every argument untouched.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Instant;

use getgpu_common::choice::chooser::{Guard, Picked};
use getgpu_common::choice::rejection_report;
use getgpu_common::diag::Diag;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::lock::LockFile;
use getgpu_common::node_lock::find_lock_file;
use getgpu_common::request::Request;
use getgpu_common::resolve_program::PREFIX;
use getgpu_common::settings::{Environment, Loaded, RunOrFail, Settings};
use getgpu_common::share::Share;
use getgpu_common::visible::Visible;

use crate::choose::{Choice, ChoiceContext, uuids};
use crate::granted::{self, Named};
use crate::handover::exec;
use crate::helper;
use crate::launch::Launch;
use crate::launch_spec::LaunchSpec;
use crate::lease::{Lease, Lessee};
use crate::options;
use crate::ranks::apply_rank;

/// What has been leased so far; kept when the program has to be looked for again.
#[derive(Debug, Default)]
pub struct LinkedProgram {
    ready: Option<LaunchSpec>,
}

impl LinkedProgram {
    /// Runs `program`; returns only what went wrong.
    pub fn run(&mut self, program: &Path, arguments: &[OsString], diag: &Diag) -> Failure {
        let ready = match self.ready.take().map_or_else(|| prepare(program, diag), Ok) {
            Ok(ready) => self.ready.insert(ready),
            Err(failure) => return failure,
        };
        exec(program, arguments, &ready.variables, ready.lease.as_ref())
    }
}

fn prepare(program: &Path, diag: &Diag) -> Result<LaunchSpec, Failure> {
    if switch(options::disabled(), diag) {
        return Ok(LaunchSpec::unchanged());
    }
    let environment = Environment::of_process();
    let settings = settings(&environment, program, diag)?.settings;
    ready(&settings, &environment, Lessee::to_be(program), diag)
}

/// What is in force for a program that nobody started by cudawrap's own name.
pub fn settings(environment: &Environment, program: &Path, diag: &Diag) -> Result<Loaded, Failure> {
    let name = program.file_name().map(OsStr::to_string_lossy);
    let name = name
        .as_deref()
        .map(|name| name.strip_prefix(PREFIX).unwrap_or(name));
    let mut loaded = Loaded::read(environment, name)?;
    for unknown in std::mem::take(&mut loaded.unknown) {
        // An old wrapper survives a newer file.
        diag.warn(&unknown);
    }
    options::variables(&mut loaded)?;
    Ok(loaded)
}

/// What the program gets: the device that CUDA_VISIBLE_DEVICES names, or one that is
/// chosen where the variable is not set.
pub fn ready(
    settings: &Settings,
    environment: &Environment,
    lessee: Lessee<'_>,
    diag: &Diag,
) -> Result<LaunchSpec, Failure> {
    let grant_ignored = switch(options::grant_ignored(), diag);
    let visible = if grant_ignored {
        Visible::Unset
    } else {
        Visible::parse(environment.visible.as_deref())
    };
    match visible {
        Visible::Nothing => Ok(LaunchSpec::unchanged()),
        Visible::Entries(entries) if entries.len() > 1 => Ok(LaunchSpec::unchanged()),
        Visible::Entries(_) => keep(settings, environment, lessee, diag),
        Visible::Unset => choose(settings, environment, grant_ignored, lessee, diag),
    }
}

/// A variable that is on or off. Nonsense in it never keeps a linked program from running.
fn switch(read: Result<bool, Failure>, diag: &Diag) -> bool {
    read.unwrap_or_else(|failure| {
        diag.warn(&format!("{}: ignored", failure.message));
        false
    })
}

/// One device is named: it is leased if it can be had, and the program runs there in any
/// case.
fn keep(
    settings: &Settings,
    environment: &Environment,
    lessee: Lessee<'_>,
    diag: &Diag,
) -> Result<LaunchSpec, Failure> {
    let began = Instant::now();
    let mut request = Request::new(settings, environment, false)?;
    let lock_file = match lock_file(settings, environment, &request, diag) {
        Ok(found) => found,
        Err(failure) => return without_gpu(settings, failure),
    };
    let rank = apply_rank::of_linked(diag);
    let call = ChoiceContext {
        settings,
        environment,
        lock_file: &lock_file,
        lessee,
        rank: rank.as_ref(),
        diag,
    };
    let Some(device) = named_device(&call, &request) else {
        return Ok(LaunchSpec::unchanged());
    };
    apply_rank::alone(
        &mut request,
        &lock_file,
        &device.uuid,
        settings,
        rank.as_ref(),
    );
    lease_named(&call, &mut request, &[device], began, None)
}

/// The device that CUDA_VISIBLE_DEVICES names, if that can be told.
fn named_device(call: &ChoiceContext<'_>, request: &Request) -> Option<Device> {
    let by_name = || request.visible.single_uuid().cloned().map(Device::by_uuid);
    let by_size = call.settings.share.is_some_and(Share::needs_memory);
    let sized = by_size || (call.settings.mps && call.settings.share.is_some());
    let known = by_name().filter(|_| !sized);
    let device = known.or_else(|| call.resolve(request.clone()));
    // For MPS alone the memory need not be known.
    device.or_else(|| by_name().filter(|_| !by_size))
}

/// Leases named devices if they can be had, and runs the program there in any case.
/// `shown`: what CUDA_VISIBLE_DEVICES is to name, where it names nothing yet.
fn lease_named(
    call: &ChoiceContext<'_>,
    request: &mut Request,
    devices: &[Device],
    began: Instant,
    shown: Option<&[Uuid]>,
) -> Result<LaunchSpec, Failure> {
    let (settings, diag) = (call.settings, call.diag);
    match granted::lease(call.lock_file, request, devices, call.lessee.pid, diag)? {
        Named::Leased(lease) => Launch::behind(call, began, request).with(devices, shown, lease),
        Named::TooLarge(failure) => {
            diag.warn(&format!("{}: running without a lease", failure.message));
            Ok(LaunchSpec::without_lease(shown))
        }
        Named::Taken(uuid, holder) if settings.when_taken == RunOrFail::Run => {
            let who = granted::in_use(&uuid, holder.as_ref());
            let why = match shown {
                None => "CUDA_VISIBLE_DEVICES names it",
                Some(_) => "the batch system gave it to this job",
            };
            diag.warn(&format!("{who}: running there because {why}"));
            Ok(LaunchSpec::without_lease(shown))
        }
        Named::Taken(uuid, holder) => Err(granted::taken(&uuid, holder.as_ref(), request)),
    }
}

/// The variable is not set: a device is chosen.
fn choose(
    settings: &Settings,
    environment: &Environment,
    grant_ignored: bool,
    lessee: Lessee<'_>,
    diag: &Diag,
) -> Result<LaunchSpec, Failure> {
    let began = Instant::now();
    let rank = apply_rank::of_linked(diag);
    let request = Request::new(settings, environment, grant_ignored).and_then(|request| {
        let lock_file = lock_file(settings, environment, &request, diag)?;
        Ok((request, lock_file))
    });
    let (request, lock_file) = match request {
        Ok(found) => found,
        Err(failure) => return without_gpu(settings, failure),
    };
    let call = ChoiceContext {
        settings,
        environment,
        lock_file: &lock_file,
        lessee,
        rank: rank.as_ref(),
        diag,
    };
    match call.free(request) {
        Ok(Choice::Free(picked, guard, request)) => {
            lease_picked(&call, picked, guard, *request, began)
        }
        // A batch job has just this device, although CUDA_VISIBLE_DEVICES does not say
        // so.
        Ok(Choice::Only(devices, mut request)) => {
            let shown = apply_rank::shown(uuids(&devices), &request, settings);
            lease_named(&call, &mut request, &devices, began, shown.as_deref())
        }
        Err(failure) => without_gpu(settings, failure),
    }
}

/// Leases devices that were chosen and claimed.
fn lease_picked(
    call: &ChoiceContext<'_>,
    picked: Vec<Picked>,
    guard: Guard,
    request: Request,
    began: Instant,
) -> Result<LaunchSpec, Failure> {
    let (devices, claims): (Vec<_>, _) = picked.into_iter().map(|p| (p.device, p.claim)).unzip();
    let lease = Lease::confirm(claims, &[], call.lock_file, call.lessee.pid)?;
    let lease = lease.taken_from(request.cover.as_ref());
    request.confirm(call.lock_file)?;
    drop(guard);
    let shown = apply_rank::shown(uuids(&devices), &request, call.settings);
    let launch = Launch::behind(call, began, &request);
    launch.with(&devices, shown.as_deref(), lease)
}

/// The lock file. Where it cannot be used and there is no GPU either, that is what failed:
/// there is nothing to lock.
fn lock_file(
    settings: &Settings,
    environment: &Environment,
    request: &Request,
    diag: &Diag,
) -> Result<LockFile, Failure> {
    find_lock_file(settings, environment, diag, true).map_err(|failure| {
        let pool = helper::ask(settings, |client| {
            let inventory = client.scan(request.detail())?;
            rejection_report::pool(&request.filter, &inventory, request.count).map(drop)
        });
        pool.err().filter(is_no_gpu).unwrap_or(failure)
    })
}

fn is_no_gpu(failure: &Failure) -> bool {
    matches!(failure.kind, Kind::NoDriver | Kind::NoUsableGpu)
}

/// Programs are shared with nodes without GPUs.
fn without_gpu(settings: &Settings, failure: Failure) -> Result<LaunchSpec, Failure> {
    if is_no_gpu(&failure) && settings.when_no_gpu == RunOrFail::Run {
        Ok(LaunchSpec::unchanged())
    } else {
        Err(failure)
    }
}
