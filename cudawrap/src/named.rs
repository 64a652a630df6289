//! The story under our own name: `cudawrap [OPTIONS] [--] PROGRAM [ARG...]`. CUDA_VISIBLE_DEVICES is the grant,
//! and without a device of its own the program is not run.

use std::ffi::OsString;

use getgpu_common::diag::{Diag, Level};
use getgpu_common::error::Failure;
use getgpu_common::exit;
use getgpu_common::ident::Uuid;
use getgpu_common::lock::Place;
use getgpu_common::request::{Request, lock_place};
use getgpu_common::settings::{Environment, Loaded, Settings};
use getgpu_common::visible::Visible;

use crate::choose::{self, Choice, Named};
use crate::handover::exec;
use crate::lease::Lease;
use crate::options::{self, Options, Wanted};
use crate::program;
use crate::report::end;

/// Runs with all arguments, the program's name included; returns the exit status if the program could not be run.
pub fn run(arguments: &[OsString]) -> i32 {
    let plain = Diag::new("cudawrap", Level::Normal);
    match options::parse(arguments) {
        Err(failure) => end(&plain, &failure),
        Ok(Wanted::Text(text)) => match getgpu_common::diag::print(&text) {
            Ok(()) => exit::OK,
            Err(failure) => end(&plain, &failure),
        },
        Ok(Wanted::Run(options)) => {
            let diag = Diag::new("cudawrap", options.level);
            end(&diag, &become_program(&options, &diag))
        }
    }
}

fn become_program(options: &Options, diag: &Diag) -> Failure {
    let Some(name) = options.program.first() else { return options::no_program() };
    let program = match program::typed(name) {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    if options::disabled() {
        return exec(&program, &options.program, None, None);
    }
    match leased(options, diag) {
        Ok((device, lease)) => exec(&program, &options.program, Some(device.as_str()), lease.as_ref()),
        Err(failure) => failure,
    }
}

fn leased(options: &Options, diag: &Diag) -> Result<(Uuid, Option<Lease>), Failure> {
    let environment = Environment::of_process();
    let mut loaded = Loaded::read(&environment)?.strict()?;
    options::variables(&mut loaded)?;
    let mut settings: Settings = loaded.settings;
    settings.kind = options.kind.unwrap_or(settings.kind);
    let request = Request::new(&settings, &environment, options.ignore_grant)?;
    if request.visible == Visible::Nothing {
        return Err(request.empty_grant());
    }
    let place = lock_place(&settings, &environment, diag, false)?;
    // A grant of one device, given by its full UUID: nothing to choose, so neither NVML nor reservations are asked.
    if let Some(uuid) = request.visible.single_uuid().filter(|uuid| uuid.is_mig()).cloned() {
        return only(&place, uuid, diag);
    }
    match choose::free(&settings, &place, request)? {
        Choice::Free(device, claim) => {
            diag.note(&format!("{}: leased", device.uuid));
            let lease = Lease::settle(claim, &place)?;
            Ok((device.uuid, Some(lease)))
        }
        Choice::Only(device) => only(&place, device.uuid, diag),
    }
}

fn only(place: &Place, uuid: Uuid, diag: &Diag) -> Result<(Uuid, Option<Lease>), Failure> {
    match choose::named(place, &uuid, false)? {
        Named::Leased(lease) => {
            diag.note(&format!("{uuid}: leased"));
            Ok((uuid, Some(lease)))
        }
        Named::Ours => {
            diag.note(&format!("{uuid}: leased by the program around this one"));
            Ok((uuid, None))
        }
        Named::Taken(holder) => Err(choose::taken(&uuid, holder.as_ref())),
    }
}
