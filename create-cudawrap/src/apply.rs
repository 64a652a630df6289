//! Carries out a plan: every step is checked against the files that were seen, and a
//! failure takes back what was done. Somebody without our lock (a package manager) may
//! rename in between: then the newer program is kept.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use getgpu_common::error::{Failure, Kind, reason};

use crate::directory::{Directory, unsupported};
use crate::identity::{Id, id};
use crate::inspect::{Entry, Seen, entry};
use crate::names::Names;
use crate::names::Place::{self, App, Former, Hidden, Tmp};
use crate::plan::{Plan, Step};
use crate::swap_check::{Verdict, verdict};
use crate::{package, wrapper};

/// Why a plan was not carried out.
#[derive(Debug)]
pub enum Stop {
    /// This file system cannot exchange names; nothing has changed: plan again with
    /// [`crate::plan::Method::Replace`].
    NoExchange,
    /// Failed, with what was done taken back as far as it could be.
    Failed(Failure),
}

pub struct Work<'a> {
    /// The open, locked directory.
    pub dir: &'a Directory,
    /// The names in it.
    pub names: &'a Names,
    /// Where new links lead.
    pub wrapper: &'a OsStr,
    /// Which file that is.
    pub own: Option<Id>,
    /// The path as dpkg knows it.
    pub known_as: &'a Path,
}

/// Does the steps of `plan`, which was made for `seen`.
pub fn apply(work: &Work, seen: &Seen, plan: &Plan) -> Result<(), Stop> {
    let mut run = Run {
        work,
        now: [
            seen.app.clone(),
            seen.hidden.clone(),
            seen.tmp.clone(),
            seen.former.clone(),
        ],
        back: Vec::new(),
    };
    for step in &plan.steps {
        let Err(error) = run.step(*step) else {
            continue;
        };
        let left = run.roll_back();
        let no_exchange = matches!(step, Step::Swap(..) | Step::Move(..)) && unsupported(&error);
        if no_exchange && left.is_none() {
            return Err(Stop::NoExchange);
        }
        let failure = Failure::new(
            Kind::Refused,
            format!("{}: {}", describe(*step, work), reason(&error)),
        );
        return Err(Stop::Failed(match left {
            None if matches!(step, Step::Divert | Step::Undivert) => {
                failure.hint(package::how_to_see_diversions(work.known_as))
            }
            None => failure,
            Some(left) => failure.hint(format!(
                "interrupted half way ({left}); the path still runs its program: run the same command again"
            )),
        }));
    }
    Ok(())
}

/// A step in words, as `--dry-run` prints it.
pub fn describe(step: Step, work: &Work) -> String {
    let name = |place: Place| work.names.shown(place);
    match step {
        Step::Link(a) => format!("link {} to {}", name(a), work.wrapper.to_string_lossy()),
        Step::Copy(a, b) => format!("give {} the second name {}", name(a), name(b)),
        Step::Swap(a, b) => format!("exchange {} and {}", name(a), name(b)),
        Step::Move(a, b) => format!("rename {} to {}", name(a), name(b)),
        Step::Over(a, b) => format!("rename {} over {}", name(a), name(b)),
        Step::Drop(a) => format!("remove {}", name(a)),
        Step::Divert => format!("divert {} to {}", work.known_as.display(), name(Hidden)),
        Step::Undivert => format!(
            "end the diversion of {} to {}",
            work.known_as.display(),
            name(Hidden)
        ),
        Step::Sync => format!("write {} to the disk", work.dir.path().display()),
    }
}

struct Run<'a> {
    work: &'a Work<'a>,
    /// What each place holds by now, as far as we know.
    now: [Entry; 4],
    /// How to take back what was done, last first.
    back: Vec<Step>,
}

impl Run<'_> {
    fn step(&mut self, step: Step) -> io::Result<()> {
        let (dir, names) = (self.work.dir, self.work.names);
        match step {
            Step::Sync => dir.sync(),
            Step::Divert => {
                self.divert()?;
                self.back.push(Step::Undivert);
                Ok(())
            }
            Step::Undivert => {
                self.undivert()?;
                self.back.push(Step::Divert);
                Ok(())
            }
            Step::Link(a) => {
                dir.symlink(self.work.wrapper, names.at(a))?;
                self.back.push(Step::Drop(a));
                self.set(a, self.look(a)?);
                Ok(())
            }
            Step::Copy(a, b) => {
                dir.hard_link(names.at(a), names.at(b))?;
                self.set(b, self.known(a).clone());
                self.back.push(Step::Drop(b));
                self.expect(b, self.known(a))
            }
            Step::Swap(a, b) => {
                dir.exchange(names.at(a), names.at(b))?;
                self.swapped(a, b)
            }
            Step::Move(a, b) => {
                dir.rename_new(names.at(a), names.at(b))?;
                self.moved(a, b)
            }
            Step::Over(a, b) => {
                self.expect(b, self.known(b))?;
                self.keep_last_copy(step)?;
                dir.rename_over(names.at(a), names.at(b))?;
                // From here on there is no way back, and none is needed: the program is
                // under its other name.
                self.back.clear();
                self.set(b, self.known(a).clone());
                self.set(a, Entry::ABSENT);
                self.expect(b, self.known(b))
            }
            Step::Drop(a) => {
                self.expect(a, self.known(a))?;
                self.keep_last_copy(step)?;
                dir.unlink(names.at(a))?;
                self.set(a, Entry::ABSENT);
                self.back.clear();
                Ok(())
            }
        }
    }

    /// What comes of a rename to a free name that is done.
    fn moved(&mut self, a: Place, b: Place) -> io::Result<()> {
        let known = self.known(a).id;
        self.now_swapped(a, b);
        self.set(a, Entry::ABSENT);
        // Before it is looked at: should that fail, the way back begins here.
        if b != App {
            self.back.push(Step::Move(b, a));
        }
        self.set(b, self.look(b)?);
        // A program put back under its name may be newer than the one seen; what is to be
        // dropped may not.
        if b == App || self.known(b).id == known {
            Ok(())
        } else {
            Err(changed())
        }
    }

    /// What comes of an exchange that is done. Until it is known to be right, the way
    /// back begins with it: to take back only what came before would put an older program
    /// in the place of the newer one.
    fn swapped(&mut self, a: Place, b: Place) -> io::Result<()> {
        let (was_a, was_b) = (self.known(a).clone(), self.known(b).clone());
        self.now_swapped(a, b);
        self.back.push(Step::Swap(a, b));
        let (at_a, at_b) = (self.look(a)?, self.look(b)?);
        let verdict = verdict(a, b, (&was_a, &was_b), (&at_a, &at_b));
        self.set(a, at_a);
        self.set(b, at_b);
        match verdict {
            Verdict::Fine => return Ok(()),
            Verdict::Back => {}
            Verdict::Leave => drop(self.back.pop()),
        }
        Err(changed())
    }

    /// Takes back what was done; the result names what could not be.
    fn roll_back(&mut self) -> Option<String> {
        let mut left = None;
        let (dir, names) = (self.work.dir, self.work.names);
        let steps = std::mem::take(&mut self.back);
        let undone = !steps.is_empty();
        for step in steps.into_iter().rev() {
            let done = match step {
                Step::Swap(a, b) => dir
                    .exchange(names.at(a), names.at(b))
                    .map(|()| self.now_swapped(a, b)),
                Step::Move(a, b) => dir
                    .rename_new(names.at(a), names.at(b))
                    .map(|()| self.now_swapped(a, b)),
                Step::Drop(a) => self.look(a).and_then(|there| {
                    // Somebody's newer program may have come there: then nothing of ours
                    // is left to take back.
                    let ours =
                        there.is_ours() || (there.id.is_some() && there.id == self.known(a).id);
                    if ours {
                        dir.unlink(names.at(a))
                    } else {
                        Ok(())
                    }
                }),
                Step::Divert => self.divert(),
                Step::Undivert => self.undivert(),
                _ => Ok(()),
            };
            if let Err(error) = done {
                left = Some(format!("{}: {}", describe(step, self.work), reason(&error)));
                break;
            }
        }
        if undone {
            // What is taken back has no need to be durable: every state on the way is a
            // sound one.
            let _ = dir.sync();
        }
        left
    }

    /// The invariant: nothing that create-cudawrap does removes the last copy of a
    /// program. A name goes only if it is a link of ours, or if what it holds is not on
    /// the way to what the path runs afterwards, and the path runs afterwards or the file
    /// has another of our names (a link: leads to one that has).
    fn keep_last_copy(&self, step: Step) -> io::Result<()> {
        let (removed, then_runs) = match step {
            // A program comes to the path itself; a link of ours there leads to the
            // program beside it.
            Step::Over(from, App) => (
                App,
                if self.look(from)?.is_ours() {
                    Hidden
                } else {
                    from
                },
            ),
            Step::Over(_, removed) | Step::Drop(removed) => (removed, App),
            _ => return Ok(()),
        };
        let entry = self.look(removed)?;
        if entry.id.is_none() || (entry.is_ours() && removed == App) {
            return Ok(());
        }
        let (dir, names) = (self.work.dir, self.work.names);
        let second_name = self.has_second_name(removed, &entry)?;
        let here = id(&rustix::fs::fstat(dir.file())?);
        let runs = wrapper::beside_links(&dir.path().join(names.at(then_runs)), self.work.own);
        let needed = runs
            .as_ref()
            .is_some_and(|runs| runs.passes((here.dev, here.ino), names.at(removed)));
        if !needed && removed != then_runs && (entry.is_ours() || runs.is_some() || second_name) {
            return Ok(());
        }
        Err(io::Error::other("it may be the last copy of the program"))
    }

    /// Whether another of our names is the file at `place` too, or what a link there
    /// leads to.
    fn has_second_name(&self, place: Place, entry: &Entry) -> io::Result<bool> {
        let mut found = false;
        for other in [App, Hidden, Tmp, Former] {
            if other != place {
                let id = self.look(other)?.id;
                found |= id.is_some() && (id == entry.id || id == entry.leads_to);
            }
        }
        Ok(found)
    }

    fn divert(&self) -> io::Result<()> {
        package::divert(self.work.known_as, self.work.names.at(Hidden)).map_err(other)
    }

    fn undivert(&self) -> io::Result<()> {
        package::undivert(self.work.known_as, self.work.names.at(Hidden)).map_err(other)
    }

    fn look(&self, place: Place) -> io::Result<Entry> {
        entry(self.work.dir, self.work.names.at(place), self.work.own)
    }

    fn known(&self, place: Place) -> &Entry {
        &self.now[index(place)]
    }

    fn set(&mut self, place: Place, entry: Entry) {
        self.now[index(place)] = entry;
    }

    fn now_swapped(&mut self, a: Place, b: Place) {
        self.now.swap(index(a), index(b));
    }

    /// That the name still holds the file it should.
    fn expect(&self, place: Place, entry: &Entry) -> io::Result<()> {
        if self.look(place)?.id == entry.id {
            Ok(())
        } else {
            Err(changed())
        }
    }
}

fn index(place: Place) -> usize {
    match place {
        App => 0,
        Hidden => 1,
        Tmp => 2,
        Former => 3,
    }
}

fn other(failure: Failure) -> io::Error {
    io::Error::other(failure.message)
}

fn changed() -> io::Error {
    io::Error::other("somebody else changed it at the same moment")
}
