//! `max_idle`: a small process beside the holder of a `--hold` reservation that looks from
//! time to time whether anybody uses the devices. At 80 % of the limit it warns, at the
//! limit it reports, or ends the reservation, as the site says (`idle_action`).

mod look;
mod notice;
mod spell;
mod watch_args;
pub mod watchers;

use std::ffi::{CString, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use getgpu_common::choice::sampling::generator;
use getgpu_common::detached::{self, Detached, User};
use getgpu_common::diag::{Diag, Level};
use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::lock::LockFile;
use getgpu_common::node_lock::find_lock_file;
use getgpu_common::procfs::{Process, Stat};
use getgpu_common::settings::value_types::IdleAction;
use getgpu_common::settings::{Environment, Loaded, Settings};
use getgpu_common::sys;
use rand::RngExt;

use crate::holder::exit_watch::{Watch, runs};
use spell::{Act, Clocks};
use watch_args::WatchArgs;
pub use watch_args::{NAME, OPTION};

/// How long settings that cannot be read, such as those that are just being edited, are
/// left alone.
const UNSETTLED: Duration = Duration::from_secs(2);

/// Starts the process for a reservation that `holder` keeps for `caller`.
pub fn watch(holder: i32, caller: &Process, devices: &[Uuid], user: Option<User>) {
    let Some(start) = Stat::read(holder).map(|stat| stat.start) else {
        return;
    };
    let args = WatchArgs {
        devices: devices.to_vec(),
        holder: (holder, start),
        caller: (caller.pid, caller.start),
        spell: None,
    };
    let Ok(null) = std::fs::File::open("/dev/null") else {
        return;
    };
    // A reservation is good without it: nothing here is a reason to fail.
    let _ = detached::launch(&Detached {
        words: &args.words(),
        environment: &environment(|name| user.is_none() || is_told(name)),
        descriptors: [null.as_raw_fd(); 2],
        user,
    });
}

/// The part of our own environment that `is_passed_on`, without the variable that would
/// make this process a program of the reservation.
fn environment(is_passed_on: impl Fn(&str) -> bool) -> Vec<CString> {
    std::env::vars_os()
        .filter(|(name, _)| name != "CUDA_VISIBLE_DEVICES")
        .filter(|(name, _)| name.to_str().is_some_and(&is_passed_on))
        .filter_map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            CString::new(name.into_vec()).ok()
        })
        .collect()
}

/// Whether another user may be told root's variable of this name, since a process's
/// environment is its user's to read: what the settings and the loader of NVIDIA's library
/// need.
fn is_told(name: &str) -> bool {
    ["GETGPU_CONFIG", "GETGPU_LOCK", "LD_LIBRARY_PATH"].contains(&name)
}

/// The main of that process, with the words behind [`OPTION`].
pub fn main(words: &[OsString]) -> i32 {
    sys::set_name(NAME);
    match WatchArgs::parse(words.iter().filter_map(|word| word.to_str())) {
        Some(args) => run(args),
        None => 2,
    }
}

/// Looks until the holder exits. What it finds stands in its own command line, where
/// listings read it, so a new finding is executed anew.
fn run(args: WatchArgs) -> i32 {
    let environment = Environment::of_process();
    let mut holder = Watch::new(std::iter::once(args.holder));
    let (settings, lock_file) = loop {
        match site(&environment) {
            Ok(found) => break found,
            Err(_) if holder.all_over(Some(UNSETTLED)) => return 0,
            Err(_) => {}
        }
    };
    let Some(limit) = settings.max_idle else {
        return 0;
    };
    let mut random = generator();
    let mut pause = match args.spell {
        // Many reservations that are made at one instant must not all look at one instant.
        None => spell::pause(None, Duration::ZERO, limit, 0.0).mul_f64(random.random()),
        Some(spell) => spell::pause(spell, Clocks::now().running, limit, random.random()),
    };
    let before = args.spell.flatten();
    loop {
        if holder.all_over(Some(pause)) {
            return 0;
        }
        let found = look::look(&settings, &lock_file, &args.devices);
        let now = Clocks::now();
        let (spell, act) = spell::next(before, found, now, limit);
        take(act, &settings, &args, limit);
        if args.spell != Some(spell) {
            return anew(&WatchArgs {
                spell: Some(spell),
                ..args
            });
        }
        pause = spell::pause(spell, now.running, limit, random.random());
    }
}

/// The settings, and the lock that they name.
fn site(environment: &Environment) -> Result<(Settings, LockFile), Failure> {
    let settings = Loaded::read(environment, None)?.settings;
    let quiet = Diag::new("getgpu", Level::Quiet);
    let lock_file = find_lock_file(&settings, environment, &quiet, false)?;
    Ok((settings, lock_file))
}

fn take(act: Act, settings: &Settings, args: &WatchArgs, limit: Duration) {
    let ends = settings.idle_action == IdleAction::End;
    match act {
        Act::Nothing => {}
        Act::Warn => notice::send(args, &notice::warning(limit, ends), "warned"),
        Act::Report if ends => {
            notice::send(args, &notice::ended(limit), "ended");
            end(args.holder);
        }
        Act::Report => notice::send(args, &notice::reported(limit), "reported"),
    }
}

/// Ends the holder, and so the reservation.
fn end((pid, start): (i32, u64)) {
    let fd = sys::pidfd(pid);
    // Looked at after the pidfd was opened: the number is still the holder's.
    if !runs(pid, start) {
        return;
    }
    let _ = match fd {
        Ok(fd) => sys::pidfd_signal(&fd, libc::SIGTERM),
        Err(_) => nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(pid),
            nix::sys::signal::Signal::SIGTERM,
        )
        .map_err(Into::into),
    };
}

/// Executes this process again with other words; returns only if that fails.
fn anew(args: &WatchArgs) -> i32 {
    let _ = nix::unistd::execve(detached::OURSELVES, &args.words(), &environment(|_| true));
    1
}
