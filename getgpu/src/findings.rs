//! What `--check` has found: a line each, with a remedy where something is wrong, and how
//! many of them are wrong.

use std::fmt::Write;

use getgpu_common::diag::{printable, show};
use getgpu_common::error::{Failure, Kind};

/// What has been found so far.
#[derive(Default)]
pub struct Findings {
    text: String,
    wrong: usize,
}

impl Findings {
    /// Notes what is as it should be.
    pub fn fine(&mut self, what: &str, found: &str) {
        let _ = writeln!(self.text, "ok       {what}: {}", printable(found));
    }

    /// Notes what is not, and what to do.
    pub fn wrong(&mut self, what: &str, found: &str, remedy: &str) {
        self.wrong += 1;
        let _ = writeln!(self.text, "problem  {what}: {}", printable(found));
        if !remedy.is_empty() {
            let _ = writeln!(self.text, "  remedy: {}", printable(remedy));
        }
    }

    /// Notes a failure, with its own hint or `otherwise`.
    pub fn failed(&mut self, what: &str, failure: &Failure, otherwise: &str) {
        self.wrong(
            what,
            &failure.message,
            failure.hint.as_deref().unwrap_or(otherwise),
        );
    }

    /// Prints what was found; the failure is that something is wrong.
    pub fn report(&self) -> Result<(), Failure> {
        show(&self.text)?;
        match self.wrong {
            0 => Ok(()),
            1 => Err(Failure::new(Kind::NoneFree, "--check: 1 problem")),
            many => Err(Failure::new(
                Kind::NoneFree,
                format!("--check: {many} problems"),
            )),
        }
    }
}
