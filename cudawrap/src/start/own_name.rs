//! The story under our own name: `cudawrap [OPTIONS] [--] PROGRAM [ARG...]`.
//! CUDA_VISIBLE_DEVICES is the grant, and without a device of its own the program is not
//! run.

use getgpu_model::lease_tag;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Instant;

use getgpu_choose::{Asked, GrantUse, find_lock_file};
use getgpu_model::{Diag, Failure, Verbosity, Visible, exit};
use getgpu_settings::{Environment, Loaded};

use crate::call::{CudawrapCall, Lessee, Origin};
use crate::causes::CudawrapUsage;
use crate::lease::choose::{by_uuid, free, only};
use crate::lease::handover::{LaunchSpec, exec};
use crate::lease::helper;
use crate::lease::launch::{fail, launch, log_refusal};
use crate::options::{self, CudawrapOptions, Wanted};
use crate::start::clearing;
use crate::start::locate_program;
use crate::{auto, mps, ranks};

/// Runs with all arguments, the program's name included; returns the exit status if the
/// program could not be run.
pub fn run(arguments: &[OsString]) -> i32 {
    if let Some(status) = auto::lease_worker(arguments) {
        return status;
    }
    let plain = Diag::new("cudawrap", Verbosity::of_words(arguments));
    match options::parse(arguments) {
        Err(failure) => fail(&plain, &failure),
        Ok(Wanted::Text(text)) => match getgpu_model::diag::print(text) {
            Ok(()) => exit::OK,
            Err(failure) => fail(&plain, &failure),
        },
        Ok(Wanted::Run(options)) => {
            let diag = Diag::new("cudawrap", options.typed.common.level());
            let Err(failure) = become_program(&options, &diag);
            fail(&diag, &failure)
        }
    }
}

fn become_program(options: &CudawrapOptions, diag: &Diag) -> Result<Infallible, Failure> {
    let words = &options.typed.program;
    let program = &locate_program::typed(words.first().ok_or(CudawrapUsage::NoProgram)?)?;
    if options::disabled()? {
        return Err(exec(program, words, &LaunchSpec::unchanged()));
    }
    let (began, environment) = (Instant::now(), Environment::of_process());
    let loaded = settings(options, &environment, program, diag)?;
    if options.typed.running.auto {
        let ready = auto::prepare(options, &loaded, program, diag)?;
        return Err(exec(program, words, &ready));
    }
    let wait_is_typed = options.choices.first_of(&["wait"]).is_some();
    let (rank, settings) = &ranks::of_process(&loaded.settings, wait_is_typed)?;
    let is_ignored = options.typed.choosing.ignore_grant || options::grant_ignored()?;
    let asked = Asked::new(settings, &environment, GrantUse::of_option(is_ignored))?;
    if asked.grant().visible == Visible::Nothing {
        return Err(asked.grant().empty());
    }
    asked.warn_of_excluded(diag);
    mps::check(&options.choices, settings, &asked)?;
    let typed = options.typed.running.tag.clone();
    let lock_file = find_lock_file(settings, &environment, Some(diag))?;
    let call = CudawrapCall {
        settings,
        environment: &environment,
        lock_file: &lock_file,
        lessee: Lessee::to_be(program),
        rank: rank.as_ref(),
        diag,
        origin: Origin::OwnName(&options.choices),
        tag: typed.map_or_else(lease_tag::own, |tag| Ok(Some(tag)))?,
        began,
    };
    // A grant of one MIG device, given by its full UUID: nothing to choose, so neither
    // NVML nor reservations are asked.
    let choice = match by_uuid(&call, &asked).filter(|device| device.uuid.is_mig()) {
        Some(device) => only(&call, device, asked.by_name(), None),
        None => free(&call, asked, helper::node(settings)),
    };
    let ready = match choice {
        Ok(choice) => launch(&call, choice),
        Err(failure) => Err(failure),
    };
    let ready = ready
        .inspect_err(|failure| log_refusal(settings, program, call.tag.as_deref(), failure))?;
    clearing::tell(program, &words[1..], diag);
    Err(exec(program, words, &ready))
}

/// What is in force: files and variables, then the options.
fn settings(
    options: &CudawrapOptions,
    environment: &Environment,
    program: &Path,
    diag: &Diag,
) -> Result<Loaded, Failure> {
    let name = program.file_name().map(OsStr::to_string_lossy);
    let mut loaded = Loaded::read(environment, name.as_deref())?.strict()?;
    options::variables(&mut loaded)?;
    for line in options::unknown_variables() {
        diag.warn(&line);
    }
    options.choices.put(&mut loaded)?;
    options::whole_gpus_for_indices(&mut loaded)?;
    Ok(loaded)
}
