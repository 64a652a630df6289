//! cudawrap's options under its own name, and the CUDAWRAP_* variables that stand for
//! them in both forms. `table` is what there is to type, `parse` reads and checks it,
//! `variables` reads the environment.

mod parse;
mod table;
mod variables;

use getgpu_cli::Overrides;

use table::CudawrapArguments;

pub use parse::parse;
pub use variables::{
    disabled, grant_ignored, unknown_variables, variables, whole_gpus_for_indices,
};

#[derive(Clone, Debug)]
pub struct CudawrapOptions {
    /// What stands for settings.
    pub choices: Overrides,
    pub typed: CudawrapArguments,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Run a program.
    Run(Box<CudawrapOptions>),
    /// Print this.
    Text(String),
}
