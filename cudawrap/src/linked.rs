//! A linked program's story: nobody asked for cudawrap, so it says nothing, keeps what CUDA_VISIBLE_DEVICES names,
//! leases a device where it can, and runs the program with every argument untouched.

use std::ffi::OsString;
use std::path::Path;

use getgpu_common::diag::Diag;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::request::{Request, lock_place};
use getgpu_common::settings::{Environment, Loaded, RunOrFail, Settings};
use getgpu_common::visible::Visible;

use crate::choose::{self, Choice, Named};
use crate::handover::exec;
use crate::lease::Lease;
use crate::options;

/// What has been leased so far; kept when the program has to be looked for again.
#[derive(Debug, Default)]
pub struct Story {
    ready: Option<Ready>,
}

/// How the program is to be run.
#[derive(Debug)]
struct Ready {
    /// CUDA_VISIBLE_DEVICES, if it is to be set.
    device: Option<Uuid>,
    lease: Option<Lease>,
}

impl Ready {
    const AS_IT_IS: Self = Self { device: None, lease: None };
}

impl Story {
    /// Runs `program`; returns only what went wrong.
    pub fn run(&mut self, program: &Path, arguments: &[OsString], diag: &Diag) -> Failure {
        let ready = match self.ready.take().map_or_else(|| prepare(diag), Ok) {
            Ok(ready) => self.ready.insert(ready),
            Err(failure) => return failure,
        };
        exec(program, arguments, ready.device.as_ref().map(Uuid::as_str), ready.lease.as_ref())
    }
}

fn prepare(diag: &Diag) -> Result<Ready, Failure> {
    if options::disabled() {
        return Ok(Ready::AS_IT_IS);
    }
    let environment = Environment::of_process();
    let mut loaded = Loaded::read(&environment)?;
    for unknown in std::mem::take(&mut loaded.unknown) {
        // An old wrapper survives a newer file.
        diag.warn(&unknown);
    }
    options::variables(&mut loaded)?;
    let settings = loaded.settings;
    match Visible::parse(environment.visible.as_deref()) {
        Visible::Nothing => Ok(Ready::AS_IT_IS),
        Visible::Entries(entries) if entries.len() > 1 => Ok(Ready::AS_IT_IS),
        Visible::Entries(_) => keep(&settings, &environment, diag),
        Visible::Unset => choose_one(&settings, &environment, diag),
    }
}

/// One device is named: it is leased if it can be had, and the program runs there in any case.
fn keep(settings: &Settings, environment: &Environment, diag: &Diag) -> Result<Ready, Failure> {
    let place = lock_place(settings, environment, diag, true)?;
    let visible = Visible::parse(environment.visible.as_deref());
    let uuid = match visible.single_uuid() {
        Some(uuid) => Some(uuid.clone()),
        None => Request::new(settings, environment, false).ok().and_then(|request| choose::resolve(settings, request)),
    };
    let Some(uuid) = uuid else { return Ok(Ready::AS_IT_IS) };
    match choose::named(&place, &uuid, true)? {
        Named::Leased(lease) => Ok(Ready { device: None, lease: Some(lease) }),
        Named::Ours => Ok(Ready::AS_IT_IS),
        Named::Taken(holder) if settings.when_taken == RunOrFail::Run => {
            let who = choose::in_use(&uuid, holder.as_ref());
            diag.warn(&format!("{who}: running there because CUDA_VISIBLE_DEVICES names it"));
            Ok(Ready::AS_IT_IS)
        }
        Named::Taken(holder) => Err(choose::taken(&uuid, holder.as_ref())),
    }
}

fn choose_one(settings: &Settings, environment: &Environment, diag: &Diag) -> Result<Ready, Failure> {
    let chosen = Request::new(settings, environment, false).and_then(|request| {
        let place = lock_place(settings, environment, diag, true)?;
        let choice = choose::free(settings, &place, request)?;
        Ok((place, choice))
    });
    match chosen {
        Ok((place, Choice::Free(device, claim))) => {
            Ok(Ready { device: Some(device.uuid), lease: Some(Lease::settle(claim, &place)?) })
        }
        Ok((_, Choice::Only(_))) => Ok(Ready::AS_IT_IS),
        // Programs are shared with nodes without GPUs.
        Err(failure)
            if matches!(failure.kind, Kind::NoDriver | Kind::NoUsableGpu) && settings.when_no_gpu == RunOrFail::Run =>
        {
            Ok(Ready::AS_IT_IS)
        }
        Err(failure) => Err(failure),
    }
}
