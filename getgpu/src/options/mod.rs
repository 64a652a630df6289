//! getgpu's options as one checked value, which is all that later files see of what was
//! typed. `table` is what there is to type, `parse` reads and checks it, `listing` what
//! stands beside `--list`. Nothing here touches the system.

mod listing;
mod meant;
mod parse;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use getgpu_common::diag::Level;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::overrides::Overrides;

pub use parse::parse;

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Uuid,
    Index,
    /// A line for the shell.
    Env,
    /// Export lines for a task: CUDA_VISIBLE_DEVICES, and for a part of a device what
    /// frameworks read.
    Task,
    /// Nothing is printed.
    Nothing,
}

/// Until when a reservation is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing is reserved.
    No,
    /// While programs name the device.
    ForProgram,
    /// Until this process exits; none: the caller.
    Hold(Option<i32>),
}

/// How a listing is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Table,
    Json,
    Csv,
    /// For node_exporter's textfile collector.
    Prometheus,
}

/// Which devices a listing shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// Those that the caller's user holds or uses.
    Mine,
    Free,
    /// Those that this user holds or uses, by name or number.
    User(String),
}

/// When Slurm calls (slurm.conf(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// On a node, before a job.
    Prolog,
    /// Before each task.
    TaskProlog,
    /// On a node, behind a job.
    Epilog,
}

impl Hook {
    /// Each with its word.
    pub const ALL: [(&str, Self); 3] = [
        ("prolog", Self::Prolog),
        ("task-prolog", Self::TaskProlog),
        ("epilog", Self::Epilog),
    ];
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Print a device: this one of the order, or any free one.
    Print(Option<usize>),
    /// Show all devices.
    List(Form, Vec<Only>),
    /// Show them again and again, so often.
    Watch(Duration, Vec<Only>),
    /// Show who waits.
    Queue { json: bool },
    /// Look whether this node is set up, and at wrapped programs below these directories.
    Check(Vec<PathBuf>),
    /// Print how many are free.
    CountFree,
    /// Print what is reserved under this tag.
    Tagged(String),
    /// Give up a reservation.
    Release(String),
    /// Give up all.
    ReleaseAll,
    /// Show the settings.
    ShowConfig,
    /// Watch the node, and write metrics into this file.
    Monitor(Option<PathBuf>),
    /// Run one of Slurm's hooks.
    Slurm(Hook),
    /// Print this text and be done.
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is to be done.
    pub action: Action,
    /// What chooses, shares and waits.
    pub choices: Overrides,
    /// `--ignore-grant`
    pub ignore_grant: bool,
    /// `--for`
    pub reserve_for: Option<Duration>,
    /// `--hold`, `--no-reserve`
    pub keep: Keep,
    /// `--tag`
    pub tag: Option<String>,
    /// `--uid`
    pub uid: Option<u32>,
    /// `--format`
    pub format: Format,
    /// `--explain`
    pub explain: bool,
    /// `-v`, `-q`
    pub level: Level,
}

/// The failure of a call that is typed wrongly.
fn usage(message: String) -> Failure {
    Failure::new(Kind::Usage, message).hint("getgpu --help")
}

#[cfg(test)]
mod tests;
