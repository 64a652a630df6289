//! One PATH from beginning to end: look, refuse or plan, divert, apply, look again, note.
//! Each PATH is a job of its own, so that one that fails stops no other.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use getgpu_common::diag::Diag;
use getgpu_common::error::{Failure, Kind, reason};

use crate::apply::{self, Stop, Work};
use crate::directory::Directory;
use crate::facts::Facts;
use crate::held_signals::HeldSignals;
use crate::inspect::{Seen, look};
use crate::names::{Names, Place};
use crate::options::Options;
use crate::plan::{Goal, Method, Outcome, Plan, Request, Step, plan};
use crate::registry::Note;
use crate::state::{State, state};
use crate::target::{Target, is_gone};
use crate::wrapper::Wrapper;
use crate::{checks, dirlock, facts, linkdir, outcome_text, package};

/// What all jobs of a run share.
pub struct Job<'a> {
    pub options: &'a Options,
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
    /// The steps of a dry run.
    pub steps: Vec<String>,
}

impl Job<'_> {
    /// Does the job for the program (or link) at `path`.
    pub fn run(&self, path: &Path) -> Result<Done, Failure> {
        let noted = self.options.paths.is_none();
        if noted && is_gone(path) {
            return Ok(self.forget(path));
        }
        let target = match &self.options.link_dir {
            Some(dir) => linkdir::target(dir, path)?,
            None => Target::parse(path)?,
        };
        let dir = self.enter(&target)?;
        let names = Names::of(&target.name);
        let seen = self.look(&target, &dir, &names)?;
        let mut work = Work {
            dir: &dir,
            names: &names,
            wrapper: self.wrapper.map_or(OsStr::new(""), |wrapper| &wrapper.text),
            own: self.wrapper.map(|wrapper| wrapper.id),
            known_as: path,
        };
        let first = self.plan(&seen, &work, path, Method::Exchange)?;
        if self.goal != Goal::Undo && !first.steps.is_empty() {
            checks::directory(facts::keeper(&dir)?).map_err(|failure| self.blame(failure))?;
        }
        let known_as = self.admit(&target, &work, &seen, path)?;
        work.known_as = seen.diverted.as_deref().unwrap_or(&known_as);
        can_divert(&first)?;
        let outcome = first.outcome;
        let mut done = Done {
            text: outcome_text::of(&first, &names, &seen),
            steps: Vec::new(),
        };
        if self.options.dry_run {
            done.steps = outcome_text::steps(&first, &work);
            return Ok(done);
        }
        self.carry_out(&work, &seen, first, path)
            .map_err(|failure| self.blame(failure))?;
        self.keep_note(&target.path(), outcome);
        Ok(done)
    }

    /// What is to be done for a noted path that somebody has removed with its directory.
    fn forget(&self, path: &Path) -> Done {
        if self.goal == Goal::Undo && !self.options.dry_run {
            self.keep_note(path, Outcome::NotWrapped);
        }
        Done {
            text: "no longer exists, nor does its directory: nothing to do".to_owned(),
            steps: Vec::new(),
        }
    }

    /// Opens the directory in which something is to be done, and locks it.
    fn enter(&self, target: &Target) -> Result<Directory, Failure> {
        checks::name(&target.name)?;
        let dir = Directory::open(&target.dir).map_err(failed)?;
        let longest = dir.filesystem().map_err(failed)?.f_namelen;
        checks::length(&target.name, u64::try_from(longest).unwrap_or(255))?;
        if !self.options.dry_run {
            dirlock::lock(dir.file(), dirlock::PATIENCE, self.options.force)
                .map_err(|failure| self.blame(failure))?;
        }
        Ok(dir)
    }

    /// What is there.
    fn look(&self, target: &Target, dir: &Directory, names: &Names) -> Result<Seen, Failure> {
        let own = self.wrapper.map(|wrapper| wrapper.id);
        let mut seen = look(dir, names, own).map_err(failed)?;
        // Where the list does not say so, the tool is asked when it matters.
        let matters = self.goal == Goal::Undo
            || self.options.divert
            || (state(&seen) == State::Plain && !self.options.force);
        if seen.diverted.is_none() && matters {
            seen.diverted = package::diverted(&target.path(), names.at(Place::Hidden))?;
        }
        Ok(seen)
    }

    /// Whether the path is a link to another one that leads to cudawrap.
    pub fn leads_on(&self, path: &Path) -> bool {
        let own = self.wrapper.map(|wrapper| wrapper.id);
        let seen = Target::parse(path).and_then(|target| {
            let dir = Directory::open(&target.dir)
                .and_then(|dir| look(&dir, &Names::of(&target.name), own));
            dir.map_err(failed)
        });
        seen.is_ok_and(|seen| state(&seen) == State::Through)
    }

    /// With --link-dir what fails on the way fails in that directory, not at the program.
    fn blame(&self, failure: Failure) -> Failure {
        match &self.options.link_dir {
            Some(dir) => Failure {
                message: format!("--link-dir {}: {}", dir.display(), failure.message),
                ..failure
            },
            None => failure,
        }
    }

    fn plan(&self, seen: &Seen, work: &Work, path: &Path, method: Method) -> Result<Plan, Failure> {
        let named = self.wrapper.is_some_and(|wrapper| wrapper.named);
        let divert = self.options.divert;
        let request = Request {
            goal: self.goal,
            method,
            wrapper: work.wrapper,
            named,
            divert,
        };
        if self.options.link_dir.is_some() && self.goal == Goal::Wrap {
            return linkdir::plan_link(seen, &request);
        }
        let gone = self.options.paths.is_none()
            && state(seen) == State::Missing
            && seen.diverted.is_none();
        if gone {
            // Noted once, and removed by somebody: nothing is left to do there.
            self.diag
                .note(&format!("{}: no longer exists", path.display()));
            return Ok(Plan {
                steps: Vec::new(),
                outcome: Outcome::NotWrapped,
            });
        }
        plan(seen, &request)
    }

    /// Refuses what must not be wrapped and warns of the rest; the answer is the path as
    /// dpkg knows it.
    fn admit(
        &self,
        target: &Target,
        work: &Work,
        seen: &Seen,
        path: &Path,
    ) -> Result<PathBuf, Failure> {
        let known_as = target.path();
        let Some(wrapper) = self.wrapper.filter(|_| self.goal == Goal::Wrap) else {
            return Ok(known_as);
        };
        let Options { force, divert, .. } = *self.options;
        if self.options.link_dir.is_some() {
            return self.admit_link(target, path, wrapper).map(|()| known_as);
        }
        let now = state(seen);
        if now != State::Plain && !divert {
            return Ok(known_as);
        }
        let owner = if divert || !force {
            package::owner(&known_as)?
        } else {
            None
        };
        let facts = Facts {
            diverted: divert || seen.diverted.is_some(),
            owner,
            ..facts::facts(target, work.dir, wrapper)
        };
        if now == State::Plain {
            checks::program(&seen.app, &facts, force)?;
            for warning in facts::warnings(target, &seen.app) {
                self.diag
                    .warn(&format!("{}: warning: {warning}", target.shown.display()));
            }
        }
        Ok(facts.owner.map_or(known_as, |owner| owner.path))
    }

    /// The same for a link in the directory of `--link-dir`.
    fn admit_link(&self, target: &Target, path: &Path, wrapper: &Wrapper) -> Result<(), Failure> {
        linkdir::check(target, path, wrapper)?;
        if let Some(warning) = linkdir::warning(target, path, wrapper.id) {
            self.diag
                .warn(&format!("{}: warning: {warning}", path.display()));
        }
        Ok(())
    }

    fn carry_out(&self, work: &Work, seen: &Seen, plan: Plan, path: &Path) -> Result<(), Failure> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        let held = HeldSignals::hold();
        let outcome = plan.outcome;
        match apply::apply(work, seen, &plan) {
            Ok(()) => {}
            Err(Stop::Failed(failure)) => return Err(failure),
            Err(Stop::NoExchange) => self.carry_out_by_links(work, seen, path)?,
        }
        drop(held);
        let after = look(work.dir, work.names, work.own).map_err(failed)?;
        if fits(outcome, state(&after)) {
            return Ok(());
        }
        Err(
            Failure::new(Kind::Refused, "somebody else changed it at the same moment")
                .hint("--status shows what it is now"),
        )
    }

    /// The same on a file system that cannot exchange names.
    fn carry_out_by_links(&self, work: &Work, seen: &Seen, path: &Path) -> Result<(), Failure> {
        self.diag.note(&format!(
            "{}: this file system cannot exchange two names: using a hard link instead",
            path.display()
        ));
        let mut now = look(work.dir, work.names, work.own).map_err(failed)?;
        now.diverted = now.diverted.or_else(|| seen.diverted.clone());
        let plan = self.plan(&now, work, path, Method::Replace)?;
        apply::apply(work, &now, &plan).map_err(|stop| match stop {
            Stop::Failed(failure) => failure,
            Stop::NoExchange => Failure::new(Kind::Refused, "renaming is not supported here"),
        })
    }

    /// Failing to keep the note fails nothing else.
    fn keep_note(&self, path: &Path, outcome: Outcome) {
        let Some(note) = self.note else { return };
        let kept = match outcome {
            Outcome::Healthy | Outcome::AlreadyThrough => return,
            Outcome::Undiverted | Outcome::Undone | Outcome::LinkRemoved | Outcome::NotWrapped => {
                note.remove(path)
            }
            _ => note.add(path),
        };
        if let Err(error) = kept {
            let file = note.path().display();
            self.diag.warn(&format!(
                "{file}: cannot record {}: {}: --all will not find it",
                path.display(),
                reason(&error)
            ));
        }
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Kind::Refused, reason(&error))
}

/// Before anything is done: whether what a plan has to do about diversions can be done.
fn can_divert(plan: &Plan) -> Result<(), Failure> {
    let (begin, end) = (
        plan.steps.contains(&Step::Divert),
        plan.steps.contains(&Step::Undivert),
    );
    let missing = (begin && package::tool_to_divert().is_none())
        || (end && package::tool_to_undivert().is_none());
    if !missing {
        return Ok(());
    }
    Err(if begin {
        Failure::new(Kind::Refused, "--divert: dpkg-divert is not installed").hint("use --link-dir")
    } else {
        Failure::new(
            Kind::Refused,
            "dpkg diverts it to CUDAWRAP_name, and dpkg-divert, which could end that, is not installed",
        )
        .hint("nothing has changed; run the same command again with dpkg-divert in PATH")
    })
}

/// Whether the state is the one that the plan was made for.
fn fits(outcome: Outcome, now: State) -> bool {
    match outcome {
        Outcome::Undone => matches!(now, State::Plain | State::Through | State::NotAProgram),
        Outcome::LinkRemoved => now == State::Missing,
        Outcome::Linked | Outcome::AlreadyLinked => now == State::LinkOnly,
        Outcome::Repointed => matches!(now, State::Wrapped | State::LinkOnly),
        Outcome::Wrapped | Outcome::AlreadyWrapped | Outcome::Renewed | Outcome::Adopted => {
            now == State::Wrapped
        }
        Outcome::NotWrapped | Outcome::AlreadyThrough | Outcome::Undiverted | Outcome::Healthy => {
            true
        }
    }
}
