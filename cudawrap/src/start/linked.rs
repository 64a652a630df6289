//! The run of a linked program, whose user did not ask for cudawrap: it prints nothing while
//! all is well, keeps what CUDA_VISIBLE_DEVICES names, leases a device where it can, and runs the
//! program with every argument untouched.

use getgpu_model::lease_tag;
use std::path::Path;
use std::time::Instant;

use getgpu_choose::{Asked, GrantUse, find_lock_file, pool};
use getgpu_linux::program_name;
use getgpu_lock::LockFile;
use getgpu_model::{Diag, Failure, Kind, Visible, visible::hides_all};
use getgpu_settings::{Environment, Loaded, RunOrFail, Settings};

use crate::auto;
use crate::call::{CudawrapCall, Lessee, Origin};
use crate::lease::choose::free;
use crate::lease::handover::LaunchSpec;
use crate::lease::helper;
use crate::lease::launch::{launch, log_refusal};
use crate::lease::named::named;
use crate::options;
use crate::ranks;

/// What the program is to be started with, once it has been leased.
pub fn prepare(program: &Path, diag: &Diag) -> Result<LaunchSpec, Failure> {
    let environment = Environment::of_process();
    let loaded = settings(&environment, program, diag);
    if switch(options::disabled(), diag) {
        // Before the settings are checked: CUDAWRAP_DISABLE is the way around wrong ones.
        return Ok(LaunchSpec {
            argv0: loaded
                .map(|loaded| loaded.settings.argv0)
                .unwrap_or_default(),
            ..LaunchSpec::unchanged()
        });
    }
    let loaded = loaded?;
    let settings = &loaded.settings;
    let later = auto::of_linked(&loaded, &environment, program);
    let spec = match later {
        Some(spec) => spec,
        None => ready(settings, &environment, Lessee::to_be(program), diag)?,
    };
    Ok(LaunchSpec {
        argv0: settings.argv0,
        ..spec
    })
}

/// What is in force for a program that was not started by cudawrap's own name.
pub fn settings(environment: &Environment, program: &Path, diag: &Diag) -> Result<Loaded, Failure> {
    let mut loaded = Loaded::read(environment, Some(&program_name(program)))?;
    for unknown in std::mem::take(&mut loaded.unknown) {
        // An older cudawrap goes on with a file that a newer version has settings in.
        diag.remark(&unknown.message);
    }
    options::variables(&mut loaded)?;
    for line in options::unknown_variables() {
        diag.remark(&line);
    }
    options::whole_gpus_for_indices(&mut loaded)?;
    Ok(loaded)
}

/// What the program gets: the device that CUDA_VISIBLE_DEVICES names, or one that is
/// chosen where the variable is not set. Programs are shared with nodes without GPUs,
/// where they run unchanged, and with jobs that were given none, where they see none.
pub fn ready(
    settings: &Settings,
    environment: &Environment,
    lessee: Lessee<'_>,
    diag: &Diag,
) -> Result<LaunchSpec, Failure> {
    let may_run = settings.when_no_gpu == RunOrFail::Run;
    match with_device(settings, environment, lessee, diag) {
        Err(failure) if may_run && failure.is_no_gpu() => Ok(LaunchSpec::unchanged()),
        Err(failure) if may_run && failure.kind == Kind::NoGrant => {
            diag.remark(&format!("{failure}: the program sees none"));
            if let Some(hint) = &failure.hint {
                diag.remark(&format!("hint: {hint}"));
            }
            Ok(LaunchSpec::without_gpu())
        }
        ready => ready.inspect_err(|failure| {
            let tag = lease_tag::own().ok().flatten();
            log_refusal(settings, lessee.program, tag.as_deref(), failure);
        }),
    }
}

fn with_device(
    settings: &Settings,
    environment: &Environment,
    lessee: Lessee<'_>,
    diag: &Diag,
) -> Result<LaunchSpec, Failure> {
    let began = Instant::now();
    let grant_ignored = switch(options::grant_ignored(), diag);
    let value = environment.visible.as_deref().filter(|_| !grant_ignored);
    if value.is_some_and(|value| hides_all(&value.to_string_lossy())) {
        return Ok(LaunchSpec::unchanged());
    }
    let (rank, settings) = &ranks::of_linked(settings, diag);
    let asked = Asked::new(settings, environment, GrantUse::of_option(grant_ignored))?.of_link();
    let lock_file = lock_file(settings, environment, &asked)?;
    let call = CudawrapCall {
        settings,
        environment,
        lock_file: &lock_file,
        lessee,
        rank: rank.as_ref(),
        diag,
        origin: Origin::Link,
        tag: lease_tag::own()?,
        began,
    };
    let choice = match asked.grant().visible {
        Visible::Unset => free(&call, asked, helper::node(settings))?,
        _ => match named(&call, asked)? {
            Some(choice) => choice,
            None => return Ok(LaunchSpec::unchanged()),
        },
    };
    launch(&call, choice)
}

/// A variable that is on or off. Nonsense in it never keeps a linked program from running.
fn switch(read: Result<bool, Failure>, diag: &Diag) -> bool {
    read.unwrap_or_else(|failure| {
        diag.warn(&format!("{}: ignored", failure.message));
        false
    })
}

/// The lock file. If it cannot be used and the node has no GPU either, the failure is that of the
/// GPU, since there is nothing to lock.
fn lock_file(
    settings: &Settings,
    environment: &Environment,
    asked: &Asked,
) -> Result<LockFile, Failure> {
    find_lock_file(settings, environment, None).map_err(|failure| {
        let pool = helper::node(settings).ask(|node| {
            let inventory = node.inventory(asked.look())?;
            pool::candidates(asked.filter(), &inventory, asked.count()).map(drop)
        });
        pool.err().filter(Failure::is_no_gpu).unwrap_or(failure)
    })
}
