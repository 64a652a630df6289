//! cudawrap's options under its own name, and the CUDAWRAP_* variables that stand for
//! them in both forms. `table` is what there is to type, `parse` reads and checks it,
//! `variables` reads the environment.

mod parse;
mod table;
mod variables;

use std::ffi::OsString;

use getgpu_common::diag::Level;
use getgpu_common::overrides::Overrides;

pub use parse::{no_program, parse};
pub use variables::{disabled, grant_ignored, unknown_variables, variables};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What chooses, shares and waits.
    pub choices: Overrides,
    /// `--ignore-grant`
    pub ignore_grant: bool,
    /// `--visible`
    pub visible: Option<String>,
    /// `--mps`
    pub mps: bool,
    /// `--bind`
    pub bind: bool,
    /// `--auto`
    pub auto: bool,
    /// `-v`, `-q`
    pub level: Level,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

impl Options {
    /// A program without options.
    pub fn of(program: Vec<OsString>) -> Self {
        Self {
            choices: Overrides::default(),
            ignore_grant: false,
            visible: None,
            mps: false,
            bind: false,
            auto: false,
            level: Level::Normal,
            program,
        }
    }

    /// The variables that stand for what is typed without a choice of devices.
    pub fn switches(&self) -> Vec<(String, String)> {
        let on = |is_on: bool, name: &str| is_on.then(|| (name.to_owned(), "1".to_owned()));
        let visible = self.visible.clone();
        on(self.mps, "CUDAWRAP_MPS")
            .into_iter()
            .chain(on(self.ignore_grant, "CUDAWRAP_IGNORE_GRANT"))
            .chain(visible.map(|which| ("CUDAWRAP_VISIBLE".to_owned(), which)))
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
