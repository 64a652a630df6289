//! One PATH from beginning to end: look, refuse or plan, apply, record. Each PATH is a job
//! of its own, so that one that fails stops no other.

use std::ffi::OsStr;
use std::path::Path;

use getgpu_model::{Diag, Failure, reason};

use crate::apply::{self, Work, apply};
use crate::causes::PathCause;
use crate::directory::Directory;
use crate::dirlock::{self, IfNoLocks};
use crate::inspect::{PathSnapshot, snapshot};
use crate::names::{Names, Place};
use crate::options::CreateOptions;
use crate::plan::{Goal, Step, plan};
use crate::registry::{Note, NoteChange};
use crate::state::{PathState, state};
use crate::target::{Target, is_gone};
use crate::wrapper::Wrapper;
use crate::{advice, checks, status};

/// What all jobs of a run share.
pub struct Wrapping<'a> {
    pub options: &'a CreateOptions,
    /// What is asked for.
    pub goal: Goal,
    /// The cudawrap for new links; --undo does without.
    pub wrapper: Option<&'a Wrapper>,
    /// Where wrapped paths are noted.
    pub note: Option<&'a Note>,
    /// For lines on the way.
    pub diag: &'a Diag,
}

/// What came of a job.
pub struct Done {
    pub text: String,
    /// What was done, or would be.
    pub steps: Vec<String>,
}

impl Wrapping<'_> {
    /// Does the job for the program (or link) at `path`.
    pub fn run(&self, path: &Path) -> Result<Done, Failure> {
        let noted = self.options.paths.is_none();
        if noted && is_gone(path) {
            return Ok(self.forget(path));
        }
        let links = self.options.links.as_ref();
        let target = match links {
            Some(links) => links.target(path)?,
            None => Target::parse(path)?,
        };
        let dir = self.enter(&target)?;
        let names = Names::of(&target.name);
        let work = Work {
            dir: &dir,
            names: &names,
            wrapper: self.wrapper.map_or(OsStr::new(""), |wrapper| &wrapper.text),
            own: self.wrapper.map(|wrapper| wrapper.id),
        };
        let seen = snapshot(&dir, &names, work.own).map_err(PathCause::from)?;
        let now = state(&seen);
        if noted && now == PathState::Missing {
            return Ok(self.forget(path));
        }
        let named = self.options.wrapper.is_some().then_some(work.wrapper);
        let mut plan = match links {
            Some(links) if self.goal == Goal::Wrap => links.plan(&seen, now, named)?,
            _ => plan(&seen, now, self.goal, named)?,
        };
        if plan.steps.is_empty() && self.goal != Goal::Undo && links.is_none() {
            check_sound(path, &seen, &names)?;
        }
        plan.text = plan
            .text
            .replace("CUDAWRAP_name", &names.shown(Place::Hidden));
        if self.goal != Goal::Undo && !plan.steps.is_empty() {
            checks::directory(&dir).map_err(|failure| self.blame(failure))?;
        }
        self.admit(&target, &dir, &seen, now, path)?;
        let steps = plan.steps.iter().filter(|step| **step != Step::Sync);
        let steps = steps.map(|step| apply::describe(step, &work)).collect();
        if !self.options.dry_run {
            apply(&work, &seen, &plan).map_err(|failure| self.blame(failure))?;
            // By what is there now: another process may have changed it. The job is done,
            // also where that cannot be read any more.
            if let Ok(seen) = snapshot(&dir, &names, work.own) {
                let now = state(&seen);
                let change = match now {
                    PathState::Missing | PathState::Plain | PathState::Unclear => {
                        NoteChange::Remove
                    }
                    _ => NoteChange::Add,
                };
                self.keep_note(&target.path(), change);
            }
        }
        Ok(Done {
            text: plan.text,
            steps,
        })
    }

    /// A failure of the directory that is changed, which may be another one than the program's.
    fn blame(&self, failure: Failure) -> Failure {
        match &self.options.links {
            Some(links) => links.blame(failure),
            None => failure,
        }
    }

    /// What is to be done for a noted path that was removed meanwhile.
    fn forget(&self, path: &Path) -> Done {
        if self.goal == Goal::Undo && !self.options.dry_run {
            self.keep_note(path, NoteChange::Remove);
        }
        Done {
            text: "no longer exists: nothing to do".to_owned(),
            steps: Vec::new(),
        }
    }

    /// Opens the directory in which something is to be done, and locks it.
    fn enter(&self, target: &Target) -> Result<Directory, Failure> {
        checks::name(&target.name)?;
        let dir = Directory::open(&target.dir).map_err(PathCause::from)?;
        if self.goal != Goal::Undo {
            let longest = dir.filesystem().map_err(PathCause::from)?;
            let longest = longest.maximum_name_length();
            checks::length(&target.path(), usize::try_from(longest).unwrap_or(255))?;
        }
        if !self.options.dry_run {
            let if_no_locks = if self.options.force {
                IfNoLocks::GoOn
            } else {
                IfNoLocks::Refuse
            };
            dirlock::lock(&dir.file, dirlock::PATIENCE, if_no_locks)
                .map_err(|failure| self.blame(failure))?;
        }
        Ok(dir)
    }

    /// Whether the path is a link to another one that leads to cudawrap.
    pub fn leads_on(&self, path: &Path) -> bool {
        let own = self.wrapper.map(|wrapper| wrapper.id);
        let seen = Target::parse(path).and_then(|target| {
            let dir = Directory::open(&target.dir)
                .and_then(|dir| snapshot(&dir, &Names::of(&target.name), own));
            dir.map_err(|error| PathCause::from(error).into())
        });
        seen.is_ok_and(|seen| state(&seen) == PathState::Plain && seen.app.through.is_some())
    }

    /// Refuses what must not be wrapped and warns of the rest.
    fn admit(
        &self,
        target: &Target,
        dir: &Directory,
        seen: &PathSnapshot,
        now: PathState,
        path: &Path,
    ) -> Result<(), Failure> {
        let Some(wrapper) = self.wrapper.filter(|_| self.goal == Goal::Wrap) else {
            return Ok(());
        };
        if let Some(links) = &self.options.links {
            if let Some(warning) = links.admit(target, path, wrapper)? {
                self.warn(path, &warning);
            }
        } else if now == PathState::Plain && seen.app.through.is_none() {
            checks::program(target, dir, seen, wrapper, self.options.force)?;
            for warning in checks::warnings(target, dir) {
                self.warn(path, warning);
            }
            for advice in advice::of_program(&dir.path, &target.name) {
                self.diag.hint(&format!("{}: {advice}", path.display()));
            }
        }
        Ok(())
    }

    fn warn(&self, path: &Path, warning: &str) {
        self.diag
            .warn(&format!("{}: warning: {warning}", path.display()));
    }

    /// Failing to keep the note fails nothing else.
    fn keep_note(&self, path: &Path, change: NoteChange) {
        let Some(note) = self.note else {
            if change == NoteChange::Add {
                let text = "HOME is not set, so it is not recorded: --all will not find it";
                self.diag.warn(&format!("{}: {text}", path.display()));
            }
            return;
        };
        if let Err(error) = note.change(path, change) {
            let file = note.path().display();
            self.diag.warn(&format!(
                "{file}: cannot record {}: {}: --all will not find it",
                path.display(),
                reason(&error)
            ));
        }
    }
}

/// Fails where nothing is to be done and the path is not as it should be: what
/// `--status` says of it.
fn check_sound(path: &Path, seen: &PathSnapshot, names: &Names) -> Result<(), Failure> {
    match status::line(path, seen) {
        Some(line) if line.attention => {
            let detail = line.detail.unwrap_or_default();
            let detail = detail.replace("CUDAWRAP_name", &names.shown(Place::Hidden));
            let state = line.state;
            Err(PathCause::Unsound { state, detail }.into())
        }
        _ => Ok(()),
    }
}
