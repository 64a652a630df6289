//! The story in the program: is it to get a device, which one does cudawrap find, and what
//! is set for it. Where there is none the site decides what becomes of the program, which
//! hides all devices from it unless something else is set.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use getgpu_linux::{
    descriptors::{highest, keep_open, lowest},
    procfs, program_name, sys,
};
use getgpu_model::{Diag, Failure, Kind, exit};
use getgpu_settings::{AutoNone, Environment, Loaded, Settings, env_flags, matches};

use crate::causes::LibraryCause;
use crate::gate::GateOutcome;
use crate::{thread, whereabouts, worker};

/// What decides which devices a CUDA program sees.
const VISIBLE: &CStr = c"CUDA_VISIBLE_DEVICES";

/// All devices were hidden by us, at an earlier call.
static HIDDEN: AtomicBool = AtomicBool::new(false);

/// Gives the program a device, unless it has one or is to be left alone.
pub fn attach(diag: &Diag) -> GateOutcome {
    if std::env::var_os(getgpu_auto::PROBE).is_some() {
        thread::set_variable(&CString::new(getgpu_auto::CALLED).unwrap_or_default(), c"1");
        return GateOutcome::Final;
    }
    // Nonsense in the variable never keeps a program from its device.
    let disabled = env_flags::is_on("CUDAWRAP_DISABLE").unwrap_or(false);
    let program = procfs::executable("self").unwrap_or_default();
    // A script runs as its interpreter, and has its own name here (proc_pid_comm(5)).
    let started = procfs::comm(std::process::id() as i32).unwrap_or_default();
    let names = [program_name(&program), started];
    let mut built_in = getgpu_auto::EXCEPT.iter();
    let is_excepted = built_in.any(|pattern| names.iter().any(|name| matches(pattern, name)));
    if sys::secure_execution() || disabled || is_excepted {
        return GateOutcome::Final;
    }
    let beside = whereabouts::beside();
    let settings = match policy(beside.as_deref()) {
        Ok(settings) => settings,
        Err(failure) => return without(AutoNone::Hide, failure, diag),
    };
    let mut names = names.iter();
    if names.any(|name| getgpu_auto::leaves_alone(name, &settings)) {
        return GateOutcome::Final;
    }
    // A variable that this library has emptied counts as not set.
    let again = HIDDEN.load(Ordering::Relaxed)
        && std::env::var_os("CUDA_VISIBLE_DEVICES").is_some_and(|value| value.is_empty());
    let found = beside
        .or_else(|| whereabouts::elsewhere(&settings))
        .ok_or_else(|| LibraryCause::NoCudawrap.into())
        .and_then(|cudawrap| {
            worker::Question {
                cudawrap: &cudawrap,
                program: &program,
                again,
                limit: settings.nvml_timeout,
            }
            .ask()
        });
    match found {
        Ok(found) => take(found),
        Err(failure) => without(settings.auto.none, failure, diag),
    }
}

/// The policy of the site. What users prefer is the other process's business, so that a
/// slip in their file does not keep a site from turning all of this off.
fn policy(cudawrap: Option<&Path>) -> Result<Settings, Failure> {
    let environment = Environment {
        user_file: None,
        ..Environment::of_program(cudawrap)
    };
    Ok(Loaded::read(&environment, None)?.settings)
}

/// Sets the variables and keeps the lease until this process exits.
fn take((variables, descriptors): worker::FoundDevice) -> GateOutcome {
    let mut descriptors = descriptors.into_iter();
    if let Some(low) = descriptors.next() {
        keep_open(lowest(low));
    }
    for high in descriptors {
        keep_open(highest(&high).unwrap_or(high));
    }
    let alone = !thread::others();
    let mut set = false;
    for (name, value) in variables {
        let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) else {
            continue;
        };
        if alone || name.as_c_str() == VISIBLE {
            set |= name.as_c_str() == VISIBLE;
            thread::set_variable(&name, &value);
        }
    }
    if set {
        HIDDEN.store(false, Ordering::Relaxed);
    }
    GateOutcome::Final
}

/// What becomes of a program that gets no device. Said once, however often it asks.
pub fn without(policy: AutoNone, failure: Failure, diag: &Diag) -> GateOutcome {
    let said = HIDDEN.load(Ordering::Relaxed);
    let say = |failure: Failure| {
        if !said {
            diag.error(&failure);
        }
    };
    match policy {
        AutoNone::Hide => {
            say(failure.therefore("CUDA finds no device in this program"));
            thread::set_variable(VISIBLE, c"");
            HIDDEN.store(true, Ordering::Relaxed);
            GateOutcome::MayBeRepeated
        }
        AutoNone::Exit => {
            say(failure);
            sys::end(exit::cudawrap(Kind::NoneFree))
        }
        AutoNone::Run => {
            say(failure.therefore("this program may use a device that somebody else has"));
            GateOutcome::Final
        }
    }
}
