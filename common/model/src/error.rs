//! One failure type for all three programs: what failed, on which object, why, and what a
//! person can do. The kind decides the exit status (`exit.rs`); the text is written for
//! the one line that the user sees.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity;

/// What sort of failure it is; each program has a documented status for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// No device is free now: asking again later can help.
    NoneFree,
    /// Wrong use: options, settings, an index that does not exist.
    Usage,
    /// This node has no NVIDIA driver.
    NoDriver,
    /// There is a driver, but no GPU that this process may open.
    NoUsableGpu,
    /// The job was granted no GPU; the node may have some.
    NoGrant,
    /// No device of the request exists here, now or later.
    NoDevice,
    /// The NVIDIA library is missing, failed, or did not answer in time.
    Nvml,
    /// The lock cannot be used, or no holder could be started.
    LockPlace,
    /// Refused, or failed in a way that has no status of its own.
    Refused,
    /// The program exists and cannot be executed.
    CannotRun,
    /// The program does not exist.
    NotFound,
}

/// A failure with its one line and, where a person can act, a hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Decides the exit status.
    pub kind: Kind,
    /// "what, on which object: why", without the program's name.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure of `kind` that says `message`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Whether there is no GPU on this node for this process.
    pub fn is_no_gpu(&self) -> bool {
        matches!(self.kind, Kind::NoDriver | Kind::NoUsableGpu)
    }

    /// The same failure with this hint; an empty one is none.
    #[must_use]
    pub fn advised(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }

    /// The same failure, said of `what`: "WHAT: ...".
    #[must_use]
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The same failure, and what follows from it: "...: OUTCOME".
    #[must_use]
    pub fn therefore(mut self, outcome: &str) -> Self {
        self.message = format!("{}: {outcome}", self.message);
        self
    }

    /// The same failure at the end of a wait: "...; waited 5 s".
    #[must_use]
    pub fn waited(mut self, time: Duration) -> Self {
        self.message = format!("{}; waited {}", self.message, quantity::waited(time));
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The text of an I/O error as strerror(3) has it, without Rust's "(os error N)".
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let code = error.raw_os_error().unwrap_or_default();
    text.replace(&format!(" (os error {code})"), "")
}
