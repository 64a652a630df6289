//! Carries out a plan, one system call for each step. A name is removed or renamed over
//! only while it is a link to cudawrap, a copy of cudawrap or one of several names of its
//! file; no step is undone after a failure, since every step leaves a state from which
//! the command can continue.

use std::ffi::OsStr;
use std::io;

use getgpu_linux::Identity;
use getgpu_model::{Failure, reason};

use crate::causes::{PathCause, StepRemedy};
use nix::errno::Errno;

use crate::directory::Directory;
use crate::executable::{Form, form};
use crate::inspect::{EntryKind, NameEntry, PathSnapshot, entry};
use crate::names::Place::{self, App, Former, Hidden, Tmp};
use crate::names::{Names, WRAPPER};
use crate::plan::{Plan, Step};

pub struct Work<'a> {
    /// The open, locked directory.
    pub dir: &'a Directory,
    pub names: &'a Names,
    /// Where new links lead.
    pub wrapper: &'a OsStr,
    /// Which file that is.
    pub own: Option<Identity>,
}

/// Does the steps of `plan`, which was made for `seen`.
pub fn apply(work: &Work, seen: &PathSnapshot, plan: &Plan) -> Result<(), Failure> {
    for (done, step) in plan.steps.iter().enumerate() {
        let Err(error) = take(work, seen, step) else {
            continue;
        };
        let is_link = matches!(step, Step::SecondName(..) | Step::Keep(_));
        let remedy = if done > 0 {
            StepRemedy::RunAgain
        } else if is_link && refuses_links(&error) {
            StepRemedy::LetLink
        } else {
            StepRemedy::Unknown
        };
        let (step, why) = (describe(step, work), reason(&error));
        return Err(PathCause::StepFailed { step, why, remedy }.into());
    }
    Ok(())
}

/// A step in words, as `--dry-run` prints it.
pub fn describe(step: &Step, work: &Work) -> String {
    let name = |place: &Place| work.names.shown(*place);
    match step {
        Step::Link(a) => format!("link {} to {}", name(a), work.wrapper.to_string_lossy()),
        Step::SecondName(a, b) => format!("give {} the second name {}", name(a), name(b)),
        Step::Keep(kept) => format!(
            "give {} the second name {}",
            name(&Hidden),
            kept.to_string_lossy()
        ),
        Step::Over(a, b) => format!("rename {} over {}", name(a), name(b)),
        Step::Drop(a) => format!("remove {}", name(a)),
        Step::Sync => format!("write {} to the disk", work.dir.path.display()),
    }
}

fn take(work: &Work, seen: &PathSnapshot, step: &Step) -> io::Result<()> {
    let (dir, name) = (work.dir, |place: &Place| work.names.at(*place));
    match step {
        Step::Sync => dir.sync(),
        Step::Link(a) => dir.symlink(work.wrapper, name(a)),
        Step::SecondName(a, b) => dir.hard_link(name(a), name(b)),
        Step::Keep(kept) => match dir.hard_link(name(&Hidden), kept) {
            // By a run that was interrupted after it.
            Err(_) if entry_now(work, kept)?.id == seen.hidden.id => Ok(()),
            done => done,
        },
        Step::Over(a, b) => {
            expect_spare(work, seen, *b)?;
            dir.rename_over(name(a), name(b))
        }
        Step::Drop(a) => {
            expect_spare(work, seen, *a)?;
            dir.unlink(name(a))
        }
    }
}

/// The invariant: what has the name now is no file that would be lost without it.
fn expect_spare(work: &Work, seen: &PathSnapshot, place: Place) -> io::Result<()> {
    let there = entry_now(work, work.names.at(place))?;
    let is_migtools = there.kind == EntryKind::Link(crate::inspect::Leads::Migtools);
    let spare = there.kind == EntryKind::Absent
        || there.is_ours()
        || (place == App && (is_migtools || is_copy(work, &there)?))
        || has_second_name(work, seen, place, &there)?;
    if spare {
        Ok(())
    } else {
        Err(io::Error::other("it has changed at the same moment"))
    }
}

fn is_copy(work: &Work, there: &NameEntry) -> io::Result<bool> {
    let path = work.dir.path.join(work.names.at(App));
    let is_plain = there.is_program() && there.through.is_none();
    Ok(is_plain && form(&path, there.links())? == Form::Own(WRAPPER))
}

/// Whether another of the names is the same file, or for a link the file that it leads to.
fn has_second_name(
    work: &Work,
    seen: &PathSnapshot,
    place: Place,
    there: &NameEntry,
) -> io::Result<bool> {
    let others = [App, Hidden, Tmp, Former]
        .into_iter()
        .filter(|other| *other != place)
        .map(|other| work.names.at(other));
    let is_link = there.text.is_some();
    for name in others.chain([seen.replaced.as_os_str()]) {
        let other = entry_now(work, name)?;
        let same_file = other.id.is_some() && other.id == there.id;
        let same_end = other.leads_to.is_some() && other.leads_to == there.leads_to;
        if same_file || (is_link && same_end) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn entry_now(work: &Work, name: &OsStr) -> io::Result<NameEntry> {
    match entry(work.dir, name, work.own) {
        Err(error) if error.raw_os_error() == Some(Errno::ENAMETOOLONG as i32) => {
            Ok(NameEntry::default())
        }
        found => found,
    }
}

fn refuses_links(error: &io::Error) -> bool {
    use Errno::{EMLINK, ENOSYS, EOPNOTSUPP, EPERM, EXDEV};
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(EPERM | EOPNOTSUPP | ENOSYS | EMLINK | EXDEV))
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
