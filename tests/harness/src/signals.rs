//! Signals and umask as a login leaves them: a test that runs in the background of a script
//! inherits SIGINT and SIGQUIT ignored, one of a careful user a umask of 077, and both would
//! be passed on. Called for every sandbox, since no test begins anywhere else.
#![allow(unsafe_code)]

use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::{Mode, umask};

/// Puts the umask and the signals that a terminal sends back to their defaults, for this
/// process and all that it starts.
pub fn as_from_a_terminal() {
    for number in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP] {
        // SAFETY: the default action is no handler, so no code of ours runs in a signal's
        // context.
        let _ = unsafe { signal(number, SigHandler::SigDfl) };
    }
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
}
