//! Where a program is wrapped: in its own place, or in a directory of links. Here alone it is
//! decided which path is changed, by which steps, and what a failure on the way names.

use std::ffi::OsStr;
use std::path::Path;

use getgpu_model::Failure;

use crate::inspect::PathSnapshot;
use crate::linkdir::LinkDirectory;
use crate::plan::{Goal, Plan, plan};
use crate::state::PathState;
use crate::target::Target;

/// The place of the link to cudawrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// The program's own name.
    InPlace,
    /// The same name in another directory; the program stays as it is.
    Beside(LinkDirectory),
}

impl Site {
    /// # Errors
    ///
    /// The directory for links cannot be opened.
    pub fn check_exists(&self) -> Result<(), Failure> {
        match self {
            Self::InPlace => Ok(()),
            Self::Beside(links) => links.check_exists(),
        }
    }

    /// The path to be changed for the program at `path`.
    ///
    /// # Errors
    ///
    /// It is a directory, or cannot be reached.
    pub fn target(&self, path: &Path) -> Result<Target, Failure> {
        match self {
            Self::InPlace => Target::parse(path),
            Self::Beside(links) => links.target(path),
        }
    }

    /// The steps. `named`: the target of new links, if the user named it.
    ///
    /// # Errors
    ///
    /// The path is in a state in which this cannot be done.
    pub fn plan(
        &self,
        seen: &PathSnapshot,
        now: PathState,
        goal: Goal,
        named: Option<&OsStr>,
    ) -> Result<Plan, Failure> {
        match self {
            Self::Beside(links) if goal == Goal::Wrap => links.plan(seen, now, named),
            _ => plan(seen, now, goal, named),
        }
    }

    /// A failure of the directory that is changed, which may be another one than the program's.
    pub fn blame(&self, failure: Failure) -> Failure {
        match self {
            Self::InPlace => failure,
            Self::Beside(links) => links.blame(failure),
        }
    }
}
