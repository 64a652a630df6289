//! create-cudawrap's command line as one checked value. `table` is what there is to type,
//! `parse` reads and checks it. Nothing here touches the system.

mod parse;
mod table;

use std::path::PathBuf;

use getgpu_model::Verbosity;

use crate::linkdir::LinkDirectory;
use crate::plan::Goal;
pub use parse::parse;
pub use table::{PROGRAM, command};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapTask {
    /// Change something.
    Change(Goal),
    /// Show only.
    Status {
        /// As JSON.
        json: bool,
    },
}

/// The checked command line.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    pub task: WrapTask,
    /// With which paths; none: all that are noted.
    pub paths: Option<Vec<PathBuf>>,
    /// Where the links to cudawrap are, or go; none: each program's own name.
    pub links: Option<LinkDirectory>,
    pub dry_run: bool,
    pub force: bool,
    pub wrapper: Option<PathBuf>,
    /// How much is printed.
    pub level: Verbosity,
}

/// What a command line asks for.
#[derive(Clone, Debug)]
pub enum Parsed {
    /// Work.
    Run(CreateOptions),
    /// Help or version: this text on standard output.
    Print(String),
}
