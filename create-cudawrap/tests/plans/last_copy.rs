//! Whatever lies at a path and beside it, nothing that create-cudawrap does removes the
//! last copy of a program, and the path goes on running the program that it ran, after each
//! step and so after a crash there. Layouts are generated; a model says what must run.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use create_cudawrap::apply::Stop;
use create_cudawrap::directory::Directory;
use create_cudawrap::inspect::{Seen, look};
use create_cudawrap::names::Names;
use create_cudawrap::plan::{Goal, Method, Plan, Request, Step, plan};
use create_cudawrap::state::{State, state};

use crate::case::{carry_out, open};
use crate::layouts::{Diversion, HIDDEN, Layout, TMP, Thing, X, file, layouts};
use crate::path_model::{Found, Runs, Snapshot, contents, reaches, runs};

struct LayoutCase {
    dir: Directory,
    root: PathBuf,
    names: Names,
    wrapper: PathBuf,
    layout: Layout,
    /// Of dpkg, which is played here.
    diverted: bool,
}

impl LayoutCase {
    fn new(root: &Path, layout: &Layout, method: Method) -> Self {
        let at = |name: &str| root.join("d").join(name);
        for entry in std::fs::read_dir(root.join("d")).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (name, thing) in &layout.entries {
            match thing {
                Thing::Nothing => {}
                Thing::Program(content) => file(&at(name), *content, 0o755),
                Thing::Data => file(&at(name), 'D', 0o644),
                // Nothing where there is nothing to have a second name.
                Thing::SameAs(other) => drop(std::fs::hard_link(at(other), at(name))),
                Thing::Link(text) => symlink(text, at(name)).unwrap(),
            }
        }
        Self {
            dir: open(&root.join("d"), method),
            root: root.to_owned(),
            names: Names::of(OsStr::new(X)),
            wrapper: PathBuf::from("../cudawrap"),
            layout: layout.clone(),
            diverted: layout.diversion != Diversion::None,
        }
    }

    fn seen(&self) -> Seen {
        let mut seen = look(&self.dir, &self.names, None).unwrap();
        if self.diverted {
            seen.diverted = Some(self.root.join("d/x"));
        }
        seen.app.changed = (2, 0);
        seen.hidden.changed = (
            if self.layout.diversion == Diversion::NewerHidden {
                3
            } else {
                1
            },
            0,
        );
        seen
    }

    fn plan(&self, seen: &Seen, goal: Goal, method: Method) -> Option<Plan> {
        let divert = goal == Goal::Wrap && self.layout.diversion != Diversion::None;
        plan(
            seen,
            &Request {
                goal,
                method,
                wrapper: self.wrapper.as_os_str(),
                named: false,
                divert,
            },
        )
        .ok()
    }

    /// Does the first `length` steps; the diversion is changed here, where there is no
    /// dpkg.
    fn apply(&mut self, seen: &Seen, full: &Plan, length: usize) -> bool {
        let (steps, part) = (&full.steps[..length], |step: &&Step| {
            !matches!(step, Step::Divert | Step::Undivert)
        });
        for step in steps {
            self.diverted = (self.diverted || *step == Step::Divert) && *step != Step::Undivert;
        }
        let steps = steps.iter().filter(part).copied().collect();
        let ran = runs(&self.snapshot(), X) != Runs::Nothing;
        match carry_out(
            &self.dir,
            &self.names,
            &self.wrapper,
            seen,
            &Plan {
                steps,
                outcome: full.outcome,
            },
        ) {
            Ok(()) => true,
            // Where nothing runs, what would be removed may be the last hope: that is
            // said, and it stays.
            Err(Stop::Failed(failure)) if !ran && failure.message.contains("last copy") => false,
            Err(stop) => panic!("{:?} {full:?}: {stop:?}", self.layout),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let entries = std::fs::read_dir(self.root.join("d"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let found = entries.map(|path| {
            let meta = path.symlink_metadata().unwrap();
            let found = if meta.is_symlink() {
                Found::Link {
                    inode: meta.ino(),
                    text: std::fs::read_link(&path)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                }
            } else {
                let content = std::fs::read_to_string(&path)
                    .unwrap()
                    .chars()
                    .next()
                    .unwrap();
                Found::File {
                    inode: meta.ino(),
                    content,
                    runs: meta.mode() & 0o111 != 0,
                }
            };
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                found,
            )
        });
        found.collect()
    }
}

/// What must hold between the beginning and any moment afterwards.
fn check(before: &Snapshot, now: &Snapshot, began: State, goal: Goal, what: &dyn Fn() -> String) {
    let (ran, run) = (runs(before, X), runs(now, X));
    // The one state in which the path runs an older program while a newer one is beside
    // it.
    let renewed = began == State::Superseded;
    if ran != Runs::Nothing {
        let newer = renewed && run == runs(before, HIDDEN);
        assert!(
            run == ran || newer,
            "{}: ran {ran:?}, runs {run:?}: {now:#?}",
            what()
        );
    }
    // A link to a cudawrap that is gone has its program all the same: it waits for
    // --repair.
    let (had, has) = (reaches(before), reaches(now));
    for content in contents(before) {
        if !contents(now).contains(&content) {
            let superseded = has.is_some_and(|other| other != content) && (had == has || renewed);
            assert!(
                superseded,
                "{}: the last copy of {content} is gone: {before:#?} {now:#?}",
                what()
            );
        }
    }
    for (name, found) in before
        .iter()
        .filter(|(name, _)| ![X, HIDDEN, TMP].contains(&name.as_str()))
    {
        assert_eq!(now.get(name), Some(found), "{}: {name}", what());
    }
    // Another path runs what it ran, unless it depends on a name that is ours to take
    // away.
    let borrowed = before.values().any(|found| {
        matches!(found, Found::Link { text, .. } if [HIDDEN, TMP, "../e/loop-to-hidden"].contains(&text.as_str()))
    });
    if !borrowed && !renewed && runs(before, "y") != Runs::Nothing {
        assert_eq!(runs(now, "y"), runs(before, "y"), "{}: y", what());
    }
    // An undone program is the one that was hidden, and the very same file.
    if goal == Goal::Undo
        && run != Runs::Nothing
        && now.get(HIDDEN).is_none()
        && began == State::Wrapped
    {
        assert_eq!(now.get(X), before.get(HIDDEN), "{}: another file", what());
    }
}

#[test]
fn no_layout_loses_its_last_copy_and_the_path_runs_what_it_ran() {
    let base = if Path::new("/dev/shm").is_dir() {
        PathBuf::from("/dev/shm")
    } else {
        std::env::temp_dir()
    };
    // Every one in the full size, else one of so many, another one for each place in the
    // list.
    let stride = if harness::full() { 1 } else { 61 };
    let all: Vec<Layout> = layouts().step_by(stride).collect();
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let counts: Vec<[usize; 4]> = std::thread::scope(|scope| {
        let work = |part: Vec<&Layout>| {
            let temporary = tempfile::tempdir_in(&base).unwrap();
            let root = temporary.path();
            file(&root.join("cudawrap"), 'W', 0o755);
            std::fs::create_dir(root.join("d")).unwrap();
            std::fs::create_dir(root.join("e")).unwrap();
            symlink("../d/CUDAWRAP_x", root.join("e/loop-to-hidden")).unwrap();
            part.into_iter().fold([0; 4], |counts, layout| {
                let more = try_all(root, layout);
                [
                    counts[0] + 1,
                    counts[1] + more[0],
                    counts[2] + more[1],
                    counts[3] + more[2],
                ]
            })
        };
        let parts = (0..workers).map(|n| all.iter().skip(n).step_by(workers).collect::<Vec<_>>());
        let running: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        running
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let sum = |place: usize| harness::thousands(counts.iter().map(|count| count[place]).sum());
    println!(
        "invariant: {} layouts, {} operations done and {} refused, {} crashes between two steps: no last copy removed",
        sum(0),
        sum(1),
        sum(2),
        sum(3)
    );
    // Guards against a list that silently became empty.
    assert!(counts.iter().map(|count| count[1]).sum::<usize>() > 1_000);
}

/// Every operation on a layout, in one go and stopped after every step and done again:
/// how many were done, refused and stopped.
fn try_all(root: &Path, layout: &Layout) -> [usize; 3] {
    let mut counts = [0; 3];
    for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
        for method in [Method::Exchange, Method::Replace] {
            for stop in 0.. {
                let mut case = LayoutCase::new(root, layout, method);
                let (before, seen) = (case.snapshot(), case.seen());
                let began = state(&seen);
                let what =
                    || format!("{layout:?}, {began:?}, {goal:?}, {method:?}, stopped after {stop}");
                assert_eq!(
                    case.seen().reach.is_some(),
                    reaches(&before).is_some(),
                    "{}: {before:#?}",
                    what()
                );
                let Some(full) = case.plan(&seen, goal, method) else {
                    counts[1] += 1;
                    break;
                };
                if stop > full.steps.len() {
                    break;
                }
                let done = case.apply(&seen, &full, stop);
                check(&before, &case.snapshot(), began, goal, &what);
                counts[usize::from(stop < full.steps.len()) * 2] += 1;
                // Again, to the end. Where the way there was one of several, there may be
                // nothing left to do, or nothing that can be.
                let seen = case.seen();
                if !done {
                    counts[1] += 1;
                    continue;
                }
                if let Some(rest) = case.plan(&seen, goal, method) {
                    case.apply(&seen, &rest, rest.steps.len());
                } else {
                    let had =
                        runs(&before, X) != Runs::Nothing || runs(&before, HIDDEN) != Runs::Nothing;
                    // What is back under its name may lead to a wrapped path.
                    let had = had && !(goal == Goal::Undo && state(&seen) == State::Through);
                    assert!(stop == full.steps.len() || !had, "{}: no way on", what());
                }
                let after = case.snapshot();
                check(&before, &after, began, goal, &what);
                let wrapped = matches!(after.get(X), Some(Found::Link { text, .. }) if text.ends_with("/cudawrap"));
                let had = runs(&before, X) != Runs::Nothing;
                assert!(
                    goal != Goal::Undo || !had || !case.diverted || full.steps.is_empty(),
                    "{}: diverted",
                    what()
                );
                assert!(
                    goal != Goal::Wrap
                        || !wrapped
                        || case.diverted == (layout.diversion != Diversion::None)
                        || full.steps.is_empty(),
                    "{}",
                    what()
                );
            }
        }
    }
    counts
}
