//! Sharing a device through NVIDIA's own control daemon (MPS): one per user and device,
//! started by the first program that wants it and ended behind the last. The program is
//! its client by four variables, and holds it by one more read-only descriptor, with a
//! lock on it.
//!
//! `directory` is the private directory, `daemon` speaks to nvidia-cuda-mps-control,
//! `client` joins a program, `start` and `supervisor` are the small process that starts
//! the daemon and ends it, `variables` are those of the program.

mod client;
mod daemon;
mod directory;
mod start;
mod supervisor;
mod variables;

use std::ffi::OsString;
use std::time::Duration;

use getgpu_choose::Asked;
use getgpu_cli::Overrides;
use getgpu_linux::detached::words_behind;
use getgpu_model::{Detail, Device, Failure};
use getgpu_settings::Settings;

use crate::call::CudawrapCall;
use crate::causes::CudawrapUsage;
use crate::lease::handover::LaunchSpec;
use crate::lease::helper;

/// How long a program that waits for a daemon allows it to start.
const START_LIMIT: Duration = Duration::from_secs(45);

/// Runs as the process that keeps a daemon, if `arguments` say so, and gives its exit status.
pub fn keep_daemon(arguments: &[OsString]) -> Option<i32> {
    words_behind(start::OPTION, arguments).map(|words| supervisor::main(&words))
}

/// How much longer a program may take to start since a daemon has to start first.
pub const fn start_limit(settings: &Settings) -> Duration {
    if settings.mps {
        START_LIMIT
    } else {
        Duration::ZERO
    }
}

/// Switches MPS off for a program in which its variables cannot be set any more; gives what
/// the program lacks, if it was on.
pub fn switch_off(settings: &mut Settings) -> Option<&'static str> {
    std::mem::take(&mut settings.mps).then_some("the variables of MPS")
}

/// Refuses `--mps` before anything is chosen, where it is clear that there will be no share.
///
/// # Errors
///
/// The option was typed, and neither a share nor a grant.
pub fn check(typed: &Overrides, settings: &Settings, asked: &Asked) -> Result<(), Failure> {
    let is_typed = typed.first_of(&["mps"]).is_some();
    // What a grant names may be a share that was reserved, or be divided among ranks.
    if is_typed && settings.share.is_none() && !settings.share_auto && !asked.grant().exists() {
        Err(CudawrapUsage::MpsWithoutShare.into())
    } else {
        Ok(())
    }
}

/// Makes a program that has a share of a device a client of the device's daemon, if that
/// is set.
pub fn join(
    call: &CudawrapCall<'_>,
    ready: &mut LaunchSpec,
    devices: &[Device],
) -> Result<(), Failure> {
    let (settings, diag) = (call.settings, call.diag);
    // The option has no meaning without a share.
    let typed = call.is_typed("mps");
    let Some(lease) = ready.lease.as_mut().filter(|_| settings.mps) else {
        return Ok(());
    };
    let part = lease.part;
    if settings.share.is_none() && part >= 1.0 {
        return if typed {
            Err(CudawrapUsage::MpsWithoutShare.into())
        } else {
            Ok(())
        };
    }
    let [device] = devices else {
        let count = devices.len();
        return Err(CudawrapUsage::MpsOfMany { count }.into());
    };
    let uuid = &device.uuid;
    let control = daemon::Control::find(
        uuid,
        std::env::var_os("PATH").filter(|_| !getgpu_linux::sys::secure_execution()),
    )?;
    let memory = match memory(device, settings) {
        Err(failure) if !typed => {
            diag.note(&failure.message);
            None
        }
        known => known?,
    };
    lease.carry(client::join(&control)?);
    let directory = &control.directory;
    diag.note(&format!(
        "{uuid}: client of the MPS daemon in {}",
        directory.path().display()
    ));
    if memory.is_none() {
        diag.note(&format!(
            "{uuid}: NVML does not report its memory: {} is not set",
            variables::MEMORY
        ));
    }
    ready
        .variables
        .extend(variables::of_client(directory, uuid, part, memory));
    Ok(())
}

/// The device's memory, if NVML reports it.
///
/// Of a device that was leased by its name NVML was asked only for a share that was typed
/// or set. That ranks divide it, or that it is a part that was reserved, is found out
/// later.
fn memory(device: &Device, settings: &Settings) -> Result<Option<u64>, Failure> {
    if device.memory.is_some() || settings.share.is_some() {
        return Ok(device.memory);
    }
    let inventory = helper::node(settings).ask(|node| node.inventory(Detail::Size))?;
    let mut devices = inventory.devices.iter();
    let known = devices.find(|known| known.uuid == device.uuid);
    Ok(known.and_then(|known| known.memory))
}
