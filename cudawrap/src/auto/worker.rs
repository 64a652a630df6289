//! A device for a program that has loaded libcudawrap.so: the library starts this process,
//! which chooses and leases as for a linked program, and hands the lease's descriptors to
//! it. So the program has no part in it but to keep them.

use std::ffi::OsString;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use getgpu_auto::Message;
use getgpu_choose::find_lock_file;
use getgpu_linux::{OwnLock, procfs::fdinfo, sys};
use getgpu_lock::ownership_proof;
use getgpu_model::{Diag, Failure, Kind, Verbosity, Visible};
use getgpu_settings::{Environment, Loaded, Settings};

use crate::call::Lessee;
use crate::lease::Lease;
use crate::lease::handover::LaunchSpec;
use crate::mps;
use crate::ranks;
use crate::start::linked;

/// What the choice takes beside NVML's own time.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs as this process, if `arguments` say so, and gives its exit status.
pub fn lease_worker(arguments: &[OsString]) -> Option<i32> {
    match arguments {
        [_, option, words @ ..] if option == getgpu_auto::LEASE_WORKER_OPTION => Some(main(words)),
        _ => None,
    }
}

/// Standard input is the socket to the program.
fn main(words: &[OsString]) -> i32 {
    let diag = Diag::new("cudawrap", Verbosity::of_unaware_user());
    let parsed = (|| {
        let [pid, program, threads, locks] = words else {
            return None;
        };
        Some((
            pid.to_str()?.parse().ok()?,
            Path::new(program),
            threads == getgpu_auto::MANY,
            fdinfo::from_word(locks.to_str()?),
        ))
    })();
    let (Some((pid, program, has_threads, locks)), Ok(number)) = (
        parsed,
        nix::fcntl::fcntl(std::io::stdin(), nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3)),
    ) else {
        return 2;
    };
    let (socket, lessee) = (sys::own_fd(number), Lessee { program, pid });
    let sent = match device(&socket, lessee, has_threads, &locks, &diag) {
        Ok(ready) => {
            let lease = ready.lease.iter();
            let descriptors: Vec<RawFd> = lease.flat_map(Lease::descriptors).collect();
            let needed = ready.lease.as_ref().map_or(0, |lease| lease.needed);
            let message = Message::Ready {
                variables: ready.variables,
                needed,
            };
            getgpu_auto::send(&socket, &message, &descriptors)
        }
        Err(failure) => getgpu_auto::send(&socket, &Message::Failed(failure), &[]),
    };
    i32::from(sent.is_err())
}

/// The device, chosen as for a linked program. `has_threads`: another thread of the program may be
/// reading the environment; else the library may set any variable in it.
fn device(
    socket: &OwnedFd,
    lessee: Lessee<'_>,
    has_threads: bool,
    locks: &[OwnLock],
    diag: &Diag,
) -> Result<LaunchSpec, Failure> {
    let environment = Environment::of_process();
    let table = std::env::var_os(getgpu_auto::TABLE).map(PathBuf::from);
    let named = table.as_deref().unwrap_or(lessee.program);
    let mut settings = in_force(linked::settings(&environment, named, diag)?);
    let unset = match has_threads {
        true => mps::switch_off(&mut settings),
        false => None,
    };
    let _ = getgpu_auto::send(socket, &Message::Limit(limit(&settings)), &[]);
    if already_leased(&settings, &environment, locks)? {
        return Ok(LaunchSpec::unchanged());
    }
    let ready = linked::ready(&settings, &environment, lessee, diag);
    let waits = settings.longest_wait().0 != Some(Duration::ZERO);
    let ready = ready.map_err(|failure| match failure.kind {
        // One that has waited says so by itself.
        Kind::NoneFree if !waits && !ranks::is_one_of_several() => failure
            .advised("getgpu --list shows who holds what; with CUDAWRAP_WAIT=10m a program waits"),
        _ => failure,
    })?;
    Ok(match has_threads {
        true => visible_only(ready, unset, diag),
        false => ready,
    })
}

/// What may be set in a program with several threads, of which another one may be reading
/// the environment: CUDA_VISIBLE_DEVICES. A line names what else the program should have, with
/// what was left out before (`unset`) if it has a share.
fn visible_only(mut ready: LaunchSpec, unset: Option<&str>, diag: &Diag) -> LaunchSpec {
    let part = ready.lease.as_ref().map_or(1.0, |lease| lease.part);
    let others = ready
        .variables
        .extract_if(.., |(name, _)| name != "CUDA_VISIBLE_DEVICES");
    let mut missing: Vec<String> = others
        .filter(|(name, value)| std::env::var_os(name).is_none_or(|set| set != **value))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    missing.extend(unset.filter(|_| part < 1.0).map(str::to_owned));
    if !missing.is_empty() {
        diag.warn(&format!(
            "{}: not set: this program has several threads at its first CUDA call",
            missing.join(", ")
        ));
    }
    ready
}

/// The settings of a program that runs already: its threads have their CPUs.
fn in_force(loaded: Loaded) -> Settings {
    let waits = loaded.typed.contains_key("wait");
    let mut settings = loaded.settings;
    if let Some(wait) = settings.auto.wait.filter(|_| !waits) {
        settings.wait = wait;
    }
    settings.bind = false;
    settings
}

/// How long the whole of it may take; none: any time.
fn limit(settings: &Settings) -> Option<Duration> {
    let once = settings.nvml_timeout + SELECTION_TIMEOUT + mps::start_limit(settings);
    let wait = settings.longest_wait().0;
    wait.map(|time| time.saturating_add(once))
}

/// Whether the program itself holds a lease on the one device that it sees, as one that
/// cudawrap started does. It tells its locks itself: where its file is not readable (mode
/// 0711) the kernel does not tell them to other processes of its user.
fn already_leased(
    settings: &Settings,
    environment: &Environment,
    locks: &[OwnLock],
) -> Result<bool, Failure> {
    let visible = Visible::parse(environment.visible.as_deref());
    let Some(uuid) = visible.single_uuid() else {
        return Ok(false);
    };
    let lock_file = find_lock_file(settings, environment, None)?;
    Ok(!ownership_proof::leased(locks, &lock_file, uuid).is_empty())
}
