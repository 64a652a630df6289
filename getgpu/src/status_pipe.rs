//! The exit status as text, on a pipe that the caller names in GETGPU_STATUS_FD: a program that reaps
//! its children in a handler of SIGCHLD, or ignores that signal, is told none by wait(2). The Python
//! package calls getgpu so.

use std::fs::File;
use std::io::Write;

use getgpu_linux::{descriptors, sys};

/// The variable with the number of the descriptor.
const VARIABLE: &str = "GETGPU_STATUS_FD";

/// Where the status goes.
pub struct StatusPipe(File);

impl StatusPipe {
    /// Takes the descriptor, before any other is opened. None without one, and for a number that is not
    /// the writing end of a pipe: an ancestor may have set the variable.
    pub fn take() -> Option<Self> {
        let number = std::env::var(VARIABLE).ok()?.parse().ok()?;
        if sys::secure_execution() {
            return None;
        }
        Some(Self(descriptors::take_writer(number)?.into()))
    }

    /// Writes the status. Nobody may read it any more.
    pub fn tell(mut self, status: i32) {
        let _ = self.0.write_all(format!("{status}\n").as_bytes());
    }
}
