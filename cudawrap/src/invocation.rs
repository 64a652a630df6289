//! The beginning: how were we called, and then one of two stories, a linked program's or
//! that of `cudawrap -- PROGRAM`. A path that is being wrapped, undone or upgraded at
//! this moment is looked at again until it is one thing or the other.

use std::ffi::OsString;
use std::time::Duration;

use getgpu_common::detached::words_behind;
use getgpu_common::diag::{Diag, Level};
use getgpu_common::error::Kind;
use getgpu_common::{exit, lease_log};

use crate::launch::fail;
use crate::locate_program::{self, Called};
use crate::{linked, mps, named};

/// How often a path is looked at that changes under our eyes.
const TRIES: u32 = 50;

/// Never returns when all is well: then this process is the program.
pub fn run() -> i32 {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(words) = words_behind(mps::args::OPTION, &arguments) {
        return mps::supervisor::main(&words);
    }
    if let Some(words) = words_behind(lease_log::OPTION, &arguments) {
        return lease_log::main(&words);
    }
    let diag = Diag::new("cudawrap", Level::Normal);
    let path = std::env::var_os("PATH");
    let mut story = linked::LinkedProgram::default();
    for attempt in 0.. {
        let called =
            locate_program::find(arguments.first().map(OsString::as_os_str), path.as_deref());
        let failure = match called {
            Ok(Called::OwnName) => return named::run(&arguments),
            Ok(Called::Link(program)) => story.run(&program, &arguments, &diag),
            Err(failure) => failure,
        };
        let vanished = matches!(failure.kind, Kind::NotFound) && attempt < TRIES;
        if !vanished {
            return fail(&diag, &failure);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    exit::CUDAWRAP_FAILED
}
