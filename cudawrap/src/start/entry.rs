//! The beginning: how were we called, and then one of two stories, a linked program's or
//! that of `cudawrap -- PROGRAM`. A path that is being wrapped, undone or upgraded at
//! this moment is looked at again until it is one thing or the other.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use getgpu_linux::sys;
use getgpu_model::{Diag, Kind, Verbosity, exit};

use crate::causes::StartCause;
use crate::lease::handover::{LaunchSpec, exec};
use crate::lease::launch::fail;
use crate::mps;
use crate::start::locate_program::{self, Called};
use crate::start::{linked, own_name};

/// How often a path is looked at that changes under our eyes.
const TRIES: u32 = 50;

/// Never returns when all is well: then this process is the program.
pub fn run() -> i32 {
    let diag = Diag::new("cudawrap", Verbosity::of_unaware_user());
    if is_setuid() {
        return fail(&diag, &StartCause::Setuid.into());
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(status) = mps::keep_daemon(&arguments) {
        return status;
    }
    let path = std::env::var_os("PATH");
    // What has been leased is kept when the program has to be looked for again.
    let mut ready: Option<LaunchSpec> = None;
    for attempt in 0.. {
        let called =
            locate_program::find(arguments.first().map(OsString::as_os_str), path.as_deref());
        let (failure, is_found) = match called {
            Ok(Called::OwnName) => return own_name::run(&arguments),
            Ok(Called::Link(program)) => {
                let prepared = match ready.take() {
                    Some(ready) => Ok(ready),
                    None => linked::prepare(&program, &diag),
                };
                let failure = match prepared {
                    Ok(prepared) => exec(&program, &arguments, ready.insert(prepared)),
                    Err(failure) => failure,
                };
                (failure, true)
            }
            // Wrapped, undone and wrapped again between two looks, a path leads to no
            // program for a moment.
            Err(failure) => (failure, false),
        };
        let vanished = !is_found || matches!(failure.kind, Kind::NotFound);
        if !vanished || attempt >= TRIES {
            return fail(&diag, &failure);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    exit::CUDAWRAP_FAILED
}

/// Whether our executable is setuid or setgid, as after `chmod 4755` on a wrapped path,
/// which follows the link. A caller that has two user ids itself is not meant.
fn is_setuid() -> bool {
    match std::fs::metadata("/proc/self/exe") {
        Ok(meta) => meta.mode() & 0o6000 != 0,
        Err(_) => sys::secure_execution(),
    }
}
