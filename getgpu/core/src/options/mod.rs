//! getgpu's options as one checked value, which is all that later files see of what was
//! typed. `table` is what there is to type, `parse` reads and checks it, `meant` answers a
//! word that is no index. Nothing here touches the system.

mod meant;
mod parse;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use getgpu_choose::GrantUse;
use getgpu_cli::Overrides;
use getgpu_lock::Role;
use getgpu_model::{Gauge, Verbosity};

pub use parse::parse;
pub use table::{Color, Format, Hook, ReportBy};

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

/// Which devices a listing shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    Free,
    /// Those that this user holds or uses.
    User {
        uid: u32,
        name: String,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Print a device: this one of the order, or any free one.
    Print(Option<usize>),
    /// Show devices.
    List,
    /// Show them again and again, so often.
    Watch(Duration),
    /// Show who waits.
    Queue,
    /// Sum up what the system's log says, of the journal since then.
    Report { by: ReportBy, since: Option<String> },
    /// Look whether this node is set up, and at wrapped programs below these directories.
    Check {
        directories: Vec<PathBuf>,
        /// Only at what has to be repaired.
        health: bool,
    },
    /// Show the listings of other hosts in these files.
    ListFrom(Vec<PathBuf>),
    /// Tell whether a call waits while the caller has devices.
    Wanted,
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
pub struct GetgpuOptions {
    /// What is to be done.
    pub action: Action,
    /// What chooses, shares and waits.
    pub choices: Overrides,
    /// `--ignore-grant`
    pub grant_use: GrantUse,
    pub reserve_for: Option<Duration>,
    /// `--hold`, `--no-reserve`
    pub keep: Keep,
    pub tag: Option<String>,
    /// What the reservation is, which is not typed.
    pub role: Role,
    pub uid: Option<u32>,
    /// The group that this user's programs run as; none: the one of the user's login.
    pub gid: Option<u32>,
    pub format: Format,
    pub explain: bool,
    pub only: Vec<Only>,
    pub columns: Vec<Gauge>,
    pub color: Color,
    /// `-v`, `-q`
    pub level: Verbosity,
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
