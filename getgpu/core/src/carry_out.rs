//! What the options ask for, done: settings, the lock and the request, and then devices are shown,
//! given up or printed.

use std::time::Instant;

use getgpu_choose::{Asked, LockWarning, find_lock_file, syslog};
use getgpu_lock::Role;
use getgpu_model::{Diag, Failure, Kind, lease_tag};
use getgpu_settings::{Environment, Loaded, Settings, Source};

use crate::call::{GetgpuCall, node};
use crate::list::{self, Listing};
use crate::obtain::{caller, print, print_tagged};
use crate::options::{Action, Format, GetgpuOptions, Keep};
use crate::release;

/// Does what the options ask for, under the settings of files. `metrics`: the listing as metrics.
pub fn carry_out(
    options: &GetgpuOptions,
    mut loaded: Loaded,
    environment: &Environment,
    diag: &Diag,
    metrics: fn(&Listing) -> String,
) -> Result<(), Failure> {
    let began = Instant::now();
    put_options(options, environment, &mut loaded)?;
    let loaded = loaded.strict()?;
    let settings = &loaded.settings;
    let lock_file = || find_lock_file(settings, environment, diag, LockWarning::Print);
    match &options.action {
        Action::Release(name) => {
            let device_at = |index| {
                let asked = Asked::listed(settings, environment, options.grant_use)?;
                list::device_at(&mut node(settings), asked, index)
            };
            release::one(&lock_file()?, name, device_at, diag)
        }
        Action::ReleaseAll => release::all(&lock_file()?, diag),
        Action::Queue { json: true } => list::queue::show_json(&lock_file()?),
        Action::Queue { json: false } => {
            let asked = Asked::listed(settings, environment, options.grant_use)?;
            list::queue::show(&mut node(settings), asked, &lock_file()?)
        }
        _ => {
            let asked = asked(options, settings, environment)?;
            let call = GetgpuCall {
                options,
                environment,
                settings,
                lock_file: lock_file()?,
                diag,
                began,
            };
            if matches!(options.action, Action::Print(_)) {
                asked.warn_of_excluded(diag);
            }
            look_or_print(&call, asked, metrics).inspect_err(|failure| {
                let prints = matches!(options.action, Action::Print(_));
                if prints && matches!(failure.kind, Kind::NoneFree | Kind::Refused) {
                    let caller = caller::find().name;
                    let label = lease_tag::own().ok().flatten();
                    let tag = options.tag.as_ref().or(label.as_ref());
                    let tag = tag.map(String::as_str);
                    syslog::refused(settings, "getgpu", &caller, tag, &failure.message);
                }
            })
        }
    }
}

/// Which devices the call is about.
fn asked(
    options: &GetgpuOptions,
    settings: &Settings,
    environment: &Environment,
) -> Result<Asked, Failure> {
    match options.action {
        // What is looked at, or reserved already, is told to a job without a GPU too.
        Action::List | Action::Watch(_) | Action::CountFree | Action::Tagged(_) => {
            Asked::listed(settings, environment, options.grant_use)
        }
        Action::Print(Some(_)) => {
            Asked::new(settings, environment, options.grant_use).map(Asked::by_index)
        }
        _ => {
            let asked = Asked::new(settings, environment, options.grant_use)?;
            Ok(asked.as_lease_of(lease_of(options)))
        }
    }
}

/// The process that Python's `cudawrap.lease()` asks for.
fn lease_of(options: &GetgpuOptions) -> Option<i32> {
    match options.keep {
        Keep::Hold(pid) if options.role == Role::Lease => pid,
        _ => None,
    }
}

/// What a call with a request does: shows devices, or prints one.
fn look_or_print(
    call: &GetgpuCall<'_>,
    asked: Asked,
    metrics: fn(&Listing) -> String,
) -> Result<(), Failure> {
    let (settings, lock_file) = (call.settings, &call.lock_file);
    match &call.options.action {
        Action::List => list::show(&mut node(settings), asked, lock_file, call.options, metrics),
        Action::Watch(every) => list::watch::run(*every, || {
            let mut node = node(settings);
            list::drawn(&mut node, asked.clone(), lock_file, call.options).into_bytes()
        }),
        Action::CountFree => list::count::free(&mut node(settings), &asked, lock_file),
        Action::Tagged(name) => print_tagged(call, name),
        _ => print(call, asked),
    }
}

/// Puts in force what was typed.
pub fn put_options(
    options: &GetgpuOptions,
    environment: &Environment,
    loaded: &mut Loaded,
) -> Result<(), Failure> {
    options.choices.put(loaded)?;
    if options.format == Format::Index {
        loaded.put("type", &["gpu".into()], "--format index")?;
    }
    if let Some(time) = options.reserve_for {
        loaded.settings.reserve_for = time;
        loaded.from("reserve_for", Source::Typed("--for".into()));
    }
    if environment.lock.is_some() {
        loaded.settings.lock.clone_from(&environment.lock);
        loaded.from("lock", Source::Typed("GETGPU_LOCK".into()));
    }
    Ok(())
}
