//! `--link-dir`: the program stays as it is, and a directory that comes before it in PATH
//! gets a link of its name. Right for files of a package manager; cudawrap finds the
//! program by PATH behind that directory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use getgpu_linux::{Identity, can_run, identity};
use getgpu_model::Failure;

use crate::causes::{PathCause, UnfitRemedy};

use crate::checks;
use crate::directory::Directory;
use crate::inspect::{EntryKind, PathSnapshot};
use crate::names::Place::App;
use crate::plan::{Goal, Plan, Step, plan, unchanged};
use crate::state::PathState;
use crate::target::Target;
use crate::wrapper::{self, Wrapper};

/// The directory that gets the links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDirectory(pub PathBuf);

impl LinkDirectory {
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn check_exists(&self) -> Result<(), Failure> {
        let opened = std::fs::canonicalize(&self.0).and_then(|dir| Directory::open(&dir));
        opened
            .map(drop)
            .map_err(|error| self.blame(PathCause::from(error).into()))
    }

    /// The path of the link for the program at `path`.
    ///
    /// # Errors
    ///
    /// The directory cannot be reached.
    pub fn target(&self, path: &Path) -> Result<Target, Failure> {
        Target::parse(&self.0.join(path.file_name().unwrap_or(path.as_os_str())))
    }

    /// What fails on the way fails in this directory, not at the program.
    pub fn blame(&self, failure: Failure) -> Failure {
        failure.about(format_args!("--link-dir {}", self.0.display()))
    }

    /// The steps that put the link there.
    ///
    /// # Errors
    ///
    /// The name is taken there.
    pub fn plan(
        &self,
        seen: &PathSnapshot,
        now: PathState,
        named: Option<&OsStr>,
    ) -> Result<Plan, Failure> {
        let alone = seen.hidden.kind == EntryKind::Absent;
        match now {
            PathState::Missing => Ok(Plan::new(
                vec![Step::Link(App), Step::Sync],
                "the directory of links now has a link of this name to cudawrap",
            )),
            PathState::Wrapped if alone && seen.app.runs => {
                Ok(unchanged("is already a link to cudawrap; nothing changed"))
            }
            PathState::Wrapped if alone => plan(seen, now, Goal::Repair, named),
            _ => Err(PathCause::TakenByLink.into()),
        }
    }

    /// Refuses a program that the link `target` cannot stand for; else what the user should know
    /// of the link.
    ///
    /// # Errors
    ///
    /// It is no program, one of this package, or in the directory itself.
    pub fn admit(
        &self,
        target: &Target,
        program: &Path,
        wrapper: &Wrapper,
    ) -> Result<Option<String>, Failure> {
        let named = Target::parse(program)?;
        let path = named.path();
        if named.dir == target.dir {
            return Err(PathCause::InLinkDir.into());
        }
        let meta = std::fs::metadata(&path).map_err(PathCause::from)?;
        if !meta.is_file() {
            let remedy = UnfitRemedy::Unknown;
            let what = match meta.is_dir() {
                true => "a directory",
                false => "not a program",
            };
            return Err(PathCause::Unfit { what, remedy }.into());
        }
        if !can_run(&path) {
            return Err(PathCause::NotExecutable.into());
        }
        // A program that is wrapped in place leads to cudawrap too, and is no link in the
        // directory of links.
        let found = wrapper::beside_links(&path, Some(wrapper.id));
        if found.is_none_or(|found| found.program == path) {
            checks::not_own(&named, wrapper)?;
        }
        Ok(warning(target, program, wrapper.id))
    }
}

/// What the link would run instead of `program`, as PATH is now.
fn warning(target: &Target, program: &Path, own: Identity) -> Option<String> {
    let found = wrapper::in_path(&target.path(), Some(own));
    let program = wrapper::program_of(program, Some(own));
    let reached = found.as_deref().and_then(identity);
    if reached.is_some() && reached == program.as_deref().and_then(identity) {
        return None;
    }
    let dir = target.dir.display();
    Some(match found {
        Some(other) => {
            format!(
                "with this PATH the link runs {}: put {dir} before the program's directory",
                other.display()
            )
        }
        None => format!(
            "with this PATH the link finds no program: put {dir} into PATH, and the program's directory after it"
        ),
    })
}
