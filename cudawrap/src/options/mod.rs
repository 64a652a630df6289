//! cudawrap's options under its own name, and the CUDAWRAP_* variables that stand for
//! them in both forms. `table` is what there is to type, `parse` reads and checks it,
//! `variables` reads the environment.

mod parse;
mod table;
mod variables;

use std::ffi::OsString;

use getgpu_common::diag::Verbosity;
use getgpu_common::overrides::Overrides;

pub use parse::{no_program, parse};
pub use variables::{disabled, grant_ignored, unknown_variables, variables};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What chooses, shares and waits.
    pub choices: Overrides,
    pub ignore_grant: bool,
    pub visible: Option<String>,
    pub mps: bool,
    pub bind: bool,
    pub auto: bool,
    /// `-v`, `-q`
    pub level: Verbosity,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

impl Options {
    /// The variables that stand for what is typed without a choice of devices.
    pub fn switches(&self) -> Vec<(String, String)> {
        [
            ("CUDAWRAP_MPS", self.mps.then(|| "1".to_owned())),
            (
                "CUDAWRAP_IGNORE_GRANT",
                self.ignore_grant.then(|| "1".to_owned()),
            ),
            ("CUDAWRAP_VISIBLE", self.visible.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Run a program.
    Run(Options),
    /// Print this.
    Text(String),
}
