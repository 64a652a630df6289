//! The story under our own name: `cudawrap [OPTIONS] [--] PROGRAM [ARG...]`.
//! CUDA_VISIBLE_DEVICES is the grant, and without a device of its own the program is not
//! run.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Instant;

use getgpu_common::diag::{Diag, Level};
use getgpu_common::error::Failure;
use getgpu_common::exit;
use getgpu_common::hook;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Device;
use getgpu_common::lock::OfdLock;
use getgpu_common::node_lock::find_lock_file;
use getgpu_common::ownership::Decision;
use getgpu_common::queue::{self, Seeker, Waiter};
use getgpu_common::request::Request;
use getgpu_common::settings::{Environment, Loaded, Wait};
use getgpu_common::visible::Visible;

use crate::choose::{Choice, ChoiceContext, uuids};
use crate::granted::{self, Named};
use crate::granted_wait::WantedDevices;
use crate::handover::exec;
use crate::launch::Launch;
use crate::launch::fail;
use crate::launch_spec::LaunchSpec;
use crate::lease::{Lease, Lessee};
use crate::locate_program;
use crate::mps;
use crate::options::{self, Options, Wanted};
use crate::ranks::apply_rank;
use crate::{at_first_call, auto};

/// Runs with all arguments, the program's name included; returns the exit status if the
/// program could not be run.
pub fn run(arguments: &[OsString]) -> i32 {
    if arguments
        .get(1)
        .is_some_and(|word| word == hook::WORKER_OPTION)
    {
        return auto::main(&arguments[2..]);
    }
    let plain = Diag::new("cudawrap", Level::of_words(arguments));
    match options::parse(arguments) {
        Err(failure) => fail(&plain, &failure),
        Ok(Wanted::Text(text)) => match getgpu_common::diag::print(&text) {
            Ok(()) => exit::OK,
            Err(failure) => fail(&plain, &failure),
        },
        Ok(Wanted::Run(options)) => {
            let diag = Diag::new("cudawrap", options.level);
            fail(&diag, &become_program(&options, &diag))
        }
    }
}

fn become_program(options: &Options, diag: &Diag) -> Failure {
    let Some(name) = options.program.first() else {
        return options::no_program();
    };
    let program = match locate_program::typed(name) {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let ready = options::disabled().and_then(|disabled| {
        if disabled {
            Ok(LaunchSpec::unchanged())
        } else if options.auto {
            let environment = Environment::of_process();
            settings(options, &environment, &program, diag)
                .and_then(|loaded| at_first_call::prepare(options, &loaded, diag))
        } else {
            prepare(options, &program, diag)
        }
    });
    match ready {
        Ok(ready) => exec(
            &program,
            &options.program,
            &ready.variables,
            ready.lease.as_ref(),
        ),
        Err(failure) => failure,
    }
}

fn prepare(options: &Options, program: &Path, diag: &Diag) -> Result<LaunchSpec, Failure> {
    let (began, environment) = (Instant::now(), Environment::of_process());
    let loaded = settings(options, &environment, program, diag)?;
    let settings = &loaded.settings;
    let rank = apply_rank::of_process()?;
    let request = Request::new(
        settings,
        &environment,
        options.ignore_grant || options::grant_ignored()?,
    )?;
    if request.visible == Visible::Nothing {
        return Err(request.empty_grant());
    }
    if options.mps {
        mps::check(settings, &request)?;
    }
    let lock_file = find_lock_file(settings, &environment, diag, false)?;
    let call = ChoiceContext {
        settings,
        environment: &environment,
        lock_file: &lock_file,
        lessee: Lessee::to_be(program),
        rank: rank.as_ref(),
        diag,
    };
    let leased = lease(&call, choose(&call, request)?)?;
    for device in &leased.devices {
        diag.note(&format!("{}: leased", device.uuid));
    }
    let launch = Launch {
        mps: options.mps,
        ..Launch::behind(&call, began, &leased.request)
    };
    launch.with(&leased.devices, leased.shown.as_deref(), leased.lease)
}

/// What is in force: files and variables, then the options.
fn settings(
    options: &Options,
    environment: &Environment,
    program: &Path,
    diag: &Diag,
) -> Result<Loaded, Failure> {
    let name = program.file_name().map(OsStr::to_string_lossy);
    let mut loaded = Loaded::read(environment, name.as_deref())?.strict()?;
    options::variables(&mut loaded)?;
    for (name, meant) in options::unknown_variables() {
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        diag.warn(&format!("{name}: no such variable, ignored{meant}"));
    }
    options.choices.put(&mut loaded)?;
    if options.mps {
        loaded.put("mps", &["true".to_owned()], "--mps")?;
    }
    if options.bind {
        loaded.put("bind", &["true".to_owned()], "--bind")?;
    }
    if let Some(visible) = &options.visible {
        loaded.put("visible", std::slice::from_ref(visible), "--visible")?;
    }
    Ok(loaded)
}

/// The devices that the program is to have.
fn choose(call: &ChoiceContext<'_>, mut request: Request) -> Result<Choice, Failure> {
    let settings = call.settings;
    // A grant of one device, given by its full UUID: nothing to choose, so neither NVML
    // nor reservations are asked.
    let sized = settings
        .share
        .is_some_and(|share| share.needs_memory() || settings.mps);
    let single = request
        .visible
        .single_uuid()
        .filter(|uuid| uuid.is_mig() && request.count == 1 && !sized)
        .cloned();
    match single {
        Some(uuid) => {
            apply_rank::alone(&mut request, call.lock_file, &uuid, settings, call.rank);
            Ok(Choice::Only(vec![Device::by_uuid(uuid)], Box::new(request)))
        }
        None => call.free(request),
    }
}

/// A choice that was leased.
struct Leased {
    devices: Vec<Device>,
    lease: Lease,
    /// What CUDA_VISIBLE_DEVICES is to name; none: it stays as it is.
    shown: Option<Vec<Uuid>>,
    request: Box<Request>,
}

fn lease(call: &ChoiceContext<'_>, choice: Choice) -> Result<Leased, Failure> {
    match choice {
        Choice::Free(picked, guard, request) => {
            let (devices, claims): (Vec<_>, _) =
                picked.into_iter().map(|p| (p.device, p.claim)).unzip();
            let lease = Lease::confirm(claims, &[], call.lock_file, call.lessee.pid)?;
            let lease = lease.taken_from(request.cover.as_ref());
            request.confirm(call.lock_file)?;
            drop(guard);
            Ok(Leased {
                shown: apply_rank::shown(uuids(&devices), &request, call.settings),
                devices,
                lease,
                request,
            })
        }
        Choice::Only(devices, request) => Ok(Leased {
            shown: apply_rank::shown(uuids(&devices), &request, call.settings),
            lease: only(call, devices.clone(), (*request).clone())?,
            request,
            devices,
        }),
    }
}

/// Leases the devices that the grant names, and waits if another program has them. A part
/// that this process owns already is leased at once; for anything else the queue comes
/// first.
fn only(
    call: &ChoiceContext<'_>,
    devices: Vec<Device>,
    mut request: Request,
) -> Result<Lease, Failure> {
    request.filter.grant = Some(uuids(&devices));
    let (line, waits) = (request.queue(), call.wait() != Wait::No);
    let probe = call.lock_file.open()?;
    let mut ahead = queue::waiting(&probe, Some(line))?;
    if ahead > 0 {
        // Whether it is ours is a walk through /proc: only where somebody waits.
        let owned = request.owned(call.lock_file, None);
        if matches!(owned, Decision::All(_)) {
            ahead = 0;
        }
        request.cover = owned.cover();
    }
    let mut wanted = WantedDevices::new(call, devices, request);
    if ahead > 0 && !waits {
        yield_to_queue(&mut wanted, &probe, ahead)?;
    }
    drop(probe);
    if ahead == 0 || !waits {
        let named = granted::lease(
            call.lock_file,
            &mut wanted.request,
            &wanted.devices,
            call.lessee.pid,
            call.diag,
        )?;
        if !(waits && matches!(named, Named::Taken(..))) {
            return leased(named, &wanted.request);
        }
    }
    let asked = wanted.request.clone();
    let progress = call.progress();
    let waiter = Waiter::new(call.lock_file, line, wanted, progress, call.wait().into())?;
    leased(waiter.wait()?, &asked)
}

/// Fails for the sake of those who wait, unless the head of the queue leaves the devices
/// alone.
fn yield_to_queue(
    wanted: &mut WantedDevices<'_>,
    probe: &OfdLock,
    ahead: usize,
) -> Result<(), Failure> {
    let many = wanted.devices.len();
    let availability = || {
        wanted
            .availability(probe)
            .map(|availability| availability.free)
    };
    if queue::stalled_head::alone(availability, many, queue::stalled_head::ALONE)?.is_empty() {
        return Err(queue::taken_by(ahead).hint("--wait joins the queue"));
    }
    Ok(())
}

/// The lease, or why there is none.
fn leased(named: Named, request: &Request) -> Result<Lease, Failure> {
    match named {
        Named::Leased(lease) => Ok(lease),
        Named::TooLarge(failure) => Err(failure),
        Named::Taken(uuid, holder) => Err(granted::taken(&uuid, holder.as_ref(), request)),
    }
}
