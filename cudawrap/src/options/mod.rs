//! cudawrap's options under its own name, and the CUDAWRAP_* variables that stand for
//! them in both forms. `table` is what there is to type, `parse` reads and checks it,
//! `variables` reads the environment.

mod parse;
mod table;
mod variables;

use getgpu_common::overrides::Overrides;

use table::Typed;

pub use parse::{no_program, parse};
pub use variables::{disabled, grant_ignored, unknown_variables, variables};

#[derive(Clone, Debug)]
pub struct Options {
    /// What chooses, shares and waits.
    pub choices: Overrides,
    pub typed: Typed,
}

impl Options {
    /// The variables that stand for what is typed without a choice of devices.
    pub fn switches(&self) -> Vec<(String, String)> {
        [
            (
                "CUDAWRAP_MPS",
                self.typed.running.mps.then(|| "1".to_owned()),
            ),
            (
                "CUDAWRAP_IGNORE_GRANT",
                self.typed.choosing.ignore_grant.then(|| "1".to_owned()),
            ),
            ("CUDAWRAP_VISIBLE", self.typed.running.visible.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Run a program.
    Run(Box<Options>),
    /// Print this.
    Text(String),
}
