//! What the options ask for, done: settings, the lock and the request, and then devices are shown,
//! given up or printed.

use std::time::Instant;

use getgpu_choose::{Asked, find_lock_file, syslog};
use getgpu_lock::Role;
use getgpu_model::{Diag, Failure, Kind, lease_tag};
use getgpu_settings::{Environment, Loaded};

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
    let lock_file = || find_lock_file(settings, environment, Some(diag));
    // What is looked at, or reserved already, is told to a job without a GPU too.
    let listed = || Asked::listed(settings, environment, options.grant_use);
    let call = || -> Result<_, Failure> {
        Ok(GetgpuCall {
            options,
            environment,
            settings,
            lock_file: lock_file()?,
            diag,
            began,
        })
    };
    match &options.action {
        Action::Release(name) => {
            let device_at = |index| list::device_at(&mut node(settings), listed()?, index);
            release::one(&lock_file()?, name, device_at, diag)
        }
        Action::ReleaseAll => release::all(&lock_file()?, diag),
        Action::Queue if options.format == Format::Json => list::queue::show_json(&lock_file()?),
        Action::Queue => list::queue::show(&mut node(settings), listed()?, &lock_file()?),
        Action::List => list::show(
            &mut node(settings),
            listed()?,
            &lock_file()?,
            options,
            metrics,
        ),
        Action::Watch(every) => {
            let (asked, lock_file) = (listed()?, lock_file()?);
            list::watch::run(*every, || {
                list::drawn(&mut node(settings), asked.clone(), &lock_file, options).into_bytes()
            })
        }
        Action::CountFree => list::count::free(&mut node(settings), &listed()?, &lock_file()?),
        Action::Tagged(name) => print_tagged(&call()?, name),
        action => {
            let asked = Asked::new(settings, environment, options.grant_use)?;
            let asked = match action {
                Action::Print(Some(_)) => asked.by_index(),
                _ => asked.as_lease_of(lease_of(options)),
            };
            let call = call()?;
            asked.warn_of_excluded(diag);
            print(&call, asked).inspect_err(|failure| log_refusal(&call, failure))
        }
    }
}

/// Writes down that a call got no device, where the site wants that.
fn log_refusal(call: &GetgpuCall<'_>, failure: &Failure) {
    if matches!(failure.kind, Kind::NoneFree | Kind::Refused) {
        let caller = caller::find().name;
        let label = lease_tag::own().ok().flatten();
        let tag = call.options.tag.as_ref().or(label.as_ref());
        let tag = tag.map(String::as_str);
        syslog::refused(call.settings, "getgpu", &caller, tag, &failure.message);
    }
}

/// The process that Python's `cudawrap.lease()` asks for.
fn lease_of(options: &GetgpuOptions) -> Option<i32> {
    match options.keep {
        Keep::Hold(pid) if options.role == Role::Lease => pid,
        _ => None,
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
        loaded.typed.insert("reserve_for", "--for".into());
    }
    if environment.lock.is_some() {
        loaded.settings.lock.clone_from(&environment.lock);
        loaded.typed.insert("lock", "GETGPU_LOCK".into());
    }
    Ok(())
}
