//! Ends the program by a signal, for tests of what a wrapper makes of that.
//! Whatever was inherited for the signal, blocked or ignored, it shall act.
#![allow(unsafe_code)]

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use std::io;

/// Does not come back from a signal that ends programs.
pub(crate) fn end_by(signal: i32) -> io::Result<()> {
    let signal = Signal::try_from(signal)?;
    if !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
        let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: the default action runs no code of ours.
        unsafe { sigaction(signal, &action) }?;
        SigSet::from(signal).thread_unblock()?;
    }
    Ok(raise(signal)?)
}
