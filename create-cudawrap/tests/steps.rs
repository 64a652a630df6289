//! Every plan, stopped after every one of its steps, with and without exchange of names:
//! the path runs all the time, the same command once more completes, and nothing is left
//! over. Also what a package manager does in between.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is a failed test, and SKIPPED: lines are read"
)]

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use create_cudawrap::apply::{Stop, Work, apply};
use create_cudawrap::directory::{Directory, Renames};
use create_cudawrap::inspect::{Seen, look};
use create_cudawrap::names::{Names, Place};
use create_cudawrap::plan::{Goal, Method, Plan, Request, Step, plan};
use create_cudawrap::state::{State, state};

struct Case {
    root: tempfile::TempDir,
    dir: Directory,
    names: Names,
    wrapper: PathBuf,
    method: Method,
}

/// A state by its name, and the files that make it.
type Start = (&'static str, fn(&Case));

const STARTS: &[Start] = &[
    ("plain", |c| c.program("x")),
    ("wrapped", |c| (c.program("CUDAWRAP_x"), c.ours("x")).1),
    ("half", |c| (c.program("x"), c.ours("CUDAWRAP_x")).1),
    ("half, elsewhere", |c| {
        (c.program("x"), c.link("/nowhere/cudawrap", "CUDAWRAP_x")).1
    }),
    ("same file", |c| {
        (
            c.program("x"),
            std::fs::hard_link(c.at("x"), c.at("CUDAWRAP_x")).unwrap(),
        )
            .1
    }),
    ("upgraded", |c| (c.program("x"), c.program("CUDAWRAP_x")).1),
    ("vanished", |c| {
        (c.program("CUDAWRAP_x"), c.link("/nowhere/cudawrap", "x")).1
    }),
    ("orphan", |c| c.program("CUDAWRAP_x")),
];

impl Case {
    fn new(method: Method) -> Self {
        let root = tempfile::tempdir().unwrap();
        let wrapper = root.path().join("cudawrap");
        executable(&wrapper);
        std::fs::create_dir(root.path().join("d")).unwrap();
        let renames = if method == Method::Exchange {
            Renames::System
        } else {
            Renames::Plain
        };
        let dir = Directory::open_with(&root.path().join("d"), renames).unwrap();
        Self {
            root,
            dir,
            names: Names::of(OsStr::new("x")),
            wrapper,
            method,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join("d").join(name)
    }

    fn program(&self, name: &str) {
        executable(&self.at(name));
    }

    fn ours(&self, name: &str) {
        self.link(&self.wrapper, name);
    }

    fn link(&self, text: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(text, self.at(name)).unwrap();
    }

    fn seen(&self) -> Seen {
        look(&self.dir, &self.names, None).unwrap()
    }

    fn plan(&self, goal: Goal) -> Option<Plan> {
        let wrapper = self.wrapper.as_os_str();
        plan(
            &self.seen(),
            &Request {
                goal,
                method: self.method,
                wrapper,
                named: false,
                divert: false,
            },
        )
        .ok()
    }

    fn apply(&self, seen: &Seen, plan: &Plan) -> Result<(), Stop> {
        let work = Work {
            dir: &self.dir,
            names: &self.names,
            wrapper: self.wrapper.as_os_str(),
            own: None,
            known_as: Path::new(""),
        };
        apply(&work, seen, plan)
    }

    /// What starts at the path would reach a program: at once, or by a cudawrap that is
    /// there and finds its sibling.
    fn runs(&self) -> bool {
        let seen = self.seen();
        seen.app.runs && (!seen.app.is_ours() || (seen.hidden.runs && !seen.hidden.is_ours()))
    }

    fn inode(&self, name: &str) -> u64 {
        self.at(name).symlink_metadata().unwrap().ino()
    }

    fn listing(&self) -> Vec<String> {
        let names = self.root.path().join("d").read_dir().unwrap();
        let mut names: Vec<String> = names
            .map(|n| n.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn executable(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(path)
        .unwrap();
}

#[test]
fn a_stop_after_any_step_leaves_a_path_that_runs_and_a_second_run_completes() {
    let mut stops = 0;
    for method in [Method::Exchange, Method::Replace] {
        for (name, start) in STARTS {
            for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
                for length in 0.. {
                    let case = Case::new(method);
                    start(&case);
                    let (seen, ran) = (case.seen(), case.runs());
                    let Some(full) = case.plan(goal).filter(|full| length <= full.steps.len())
                    else {
                        break;
                    };
                    let what =
                        format!("{name}, {goal:?}, {method:?}, {length} of {:?}", full.steps);
                    let part = Plan {
                        steps: full.steps[..length].to_vec(),
                        outcome: full.outcome,
                    };
                    case.apply(&seen, &part)
                        .unwrap_or_else(|stop| panic!("{what}: {stop:?}"));
                    assert!(case.runs() || !ran, "{what}: does not run");
                    let rest = case
                        .plan(goal)
                        .unwrap_or_else(|| panic!("{what}: no way on"));
                    case.apply(&case.seen(), &rest)
                        .unwrap_or_else(|stop| panic!("{what}: again: {stop:?}"));
                    let end = state(&case.seen());
                    let wrapped = goal == Goal::Wrap || (goal == Goal::Repair && *name != "plain");
                    assert_eq!(
                        end,
                        if wrapped {
                            State::Wrapped
                        } else {
                            State::Plain
                        },
                        "{what}"
                    );
                    let names: &[&str] = if wrapped {
                        &["CUDAWRAP_x", "x"]
                    } else {
                        &["x"]
                    };
                    assert_eq!(case.listing(), names, "{what}");
                    assert!(case.runs(), "{what}");
                    stops += 1;
                }
            }
        }
    }
    // Guards against a table that silently became empty.
    assert!(stops > 100, "{stops}");
}

/// Fails the step after `length` by planning a step that cannot be done, and looks that
/// everything was taken back.
#[test]
fn a_failing_step_takes_back_what_was_done() {
    for (name, start) in STARTS {
        for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
            for length in 0.. {
                let case = Case::new(Method::Exchange);
                start(&case);
                let (seen, before) = (case.seen(), state(&case.seen()));
                let Some(full) = case.plan(goal).filter(|full| length <= full.steps.len()) else {
                    break;
                };
                // Past a removal, and past giving a missing path its program back, there
                // is no way back and none is wanted.
                let final_step =
                    |step: &Step| matches!(step, Step::Drop(_)) || before == State::Orphan;
                if full.steps[..length].iter().any(final_step) {
                    break;
                }
                let impossible = Step::Link(Place::App);
                let steps = [&full.steps[..length], &[impossible]].concat();
                let inodes = case
                    .listing()
                    .iter()
                    .map(|n| case.inode(n))
                    .collect::<Vec<_>>();
                if seen.app.id.is_none() {
                    break;
                }
                let stop = case
                    .apply(
                        &seen,
                        &Plan {
                            steps,
                            outcome: full.outcome,
                        },
                    )
                    .unwrap_err();
                assert!(
                    matches!(&stop, Stop::Failed(failure) if failure.hint.is_none()),
                    "{name} {goal:?} {length}: {stop:?}"
                );
                assert_eq!(state(&case.seen()), before, "{name} {goal:?} {length}");
                assert_eq!(
                    case.listing()
                        .iter()
                        .map(|n| case.inode(n))
                        .collect::<Vec<_>>(),
                    inodes,
                    "{name} {goal:?} {length}"
                );
            }
        }
    }
}

/// What was seen is not what is there any more: a package manager has renamed a new
/// program over the path.
#[test]
fn a_newer_program_that_comes_in_between_is_kept() {
    for (start, goal) in [
        ("plain", Goal::Wrap),
        ("wrapped", Goal::Undo),
        ("upgraded", Goal::Repair),
        ("vanished", Goal::Repair),
    ] {
        let case = Case::new(Method::Exchange);
        STARTS.iter().find(|(name, _)| *name == start).unwrap().1(&case);
        let (seen, full) = (case.seen(), case.plan(goal).unwrap());
        case.program("new");
        let new = case.inode("new");
        std::fs::rename(case.at("new"), case.at("x")).unwrap();
        let result = case.apply(&seen, &full);
        assert!(case.runs(), "{start}");
        let at = if result.is_ok() { "CUDAWRAP_x" } else { "x" };
        assert_eq!(case.inode(at), new, "{start}: {result:?}");
        assert_eq!(
            result.is_ok(),
            matches!(goal, Goal::Wrap) || start == "upgraded",
            "{start}: {result:?}"
        );
        assert!(
            !case.listing().contains(&".CUDAWRAP_x~".to_owned()),
            "{start}"
        );
    }
}

/// With a diversion, an upgrade lands in CUDAWRAP_x: undo gives back that one.
#[test]
fn undo_gives_back_a_program_that_an_upgrade_has_just_put_there() {
    let case = Case::new(Method::Exchange);
    case.program("CUDAWRAP_x");
    case.ours("x");
    let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
    case.program("new");
    let new = case.inode("new");
    std::fs::rename(case.at("new"), case.at("CUDAWRAP_x")).unwrap();
    case.apply(&seen, &full).unwrap();
    assert_eq!(case.listing(), ["x"]);
    assert_eq!(case.inode("x"), new);
}

#[test]
fn a_file_system_without_exchange_is_told_apart_and_left_unchanged() {
    for (name, start) in &STARTS[..3] {
        let mut case = Case::new(Method::Replace);
        start(&case);
        case.method = Method::Exchange;
        for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
            let (seen, before) = (case.seen(), state(&case.seen()));
            let Some(full) = case
                .plan(goal)
                .filter(|plan| plan.steps.iter().any(|s| matches!(s, Step::Swap(..))))
            else {
                continue;
            };
            assert!(
                matches!(case.apply(&seen, &full), Err(Stop::NoExchange)),
                "{name} {goal:?}"
            );
            assert_eq!(state(&case.seen()), before, "{name} {goal:?}");
            assert!(!case.at(".CUDAWRAP_x~").exists());
        }
    }
}

/// Where another program may write at the same moment, a name is exchanged or moved away
/// and looked at before it goes.
#[test]
fn with_exchange_nothing_is_overwritten_and_only_the_temporary_name_is_removed() {
    for (name, start) in STARTS {
        for goal in [Goal::Wrap, Goal::Undo, Goal::Repair] {
            let case = Case::new(Method::Exchange);
            start(&case);
            for step in case.plan(goal).map(|plan| plan.steps).unwrap_or_default() {
                let safe = !matches!(
                    step,
                    Step::Over(..) | Step::Drop(Place::App | Place::Hidden)
                );
                assert!(safe, "{name} {goal:?}: {step:?}");
            }
        }
    }
}

#[test]
fn a_program_that_comes_to_a_missing_path_is_not_overwritten() {
    for method in [Method::Exchange, Method::Replace] {
        let case = Case::new(method);
        case.program("CUDAWRAP_x");
        let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
        case.program("x");
        let new = case.inode("x");
        assert!(
            matches!(case.apply(&seen, &full), Err(Stop::Failed(_))),
            "{method:?}"
        );
        assert_eq!(case.inode("x"), new, "{method:?}");
        assert_eq!(case.listing(), ["CUDAWRAP_x", "x"], "{method:?}");
    }
}

/// A leftover that is not the file that was looked at is not removed.
#[test]
fn a_name_that_changed_hands_is_not_removed() {
    let case = Case::new(Method::Exchange);
    case.program("CUDAWRAP_x");
    case.ours("x");
    case.program(".CUDAWRAP_x~");
    let (seen, full) = (case.seen(), case.plan(Goal::Wrap).unwrap());
    case.program("other");
    std::fs::rename(case.at("other"), case.at(".CUDAWRAP_x~")).unwrap();
    assert!(matches!(case.apply(&seen, &full), Err(Stop::Failed(_))));
    assert!(case.at(".CUDAWRAP_x~").exists());
}

#[test]
fn without_exchange_a_path_that_changed_hands_is_not_renamed_over() {
    let case = Case::new(Method::Replace);
    case.program("CUDAWRAP_x");
    case.ours("x");
    let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
    case.program("new");
    let new = case.inode("new");
    std::fs::rename(case.at("new"), case.at("x")).unwrap();
    assert!(matches!(case.apply(&seen, &full), Err(Stop::Failed(_))));
    assert_eq!(case.inode("x"), new);
}

#[test]
fn a_program_that_is_back_under_its_name_is_not_taken_away_again() {
    let case = Case::new(Method::Exchange);
    case.program("CUDAWRAP_x");
    let (seen, full) = (case.seen(), case.plan(Goal::Undo).unwrap());
    let steps = [&full.steps[..], &[Step::Link(Place::App)]].concat();
    assert!(
        case.apply(
            &seen,
            &Plan {
                steps,
                outcome: full.outcome
            }
        )
        .is_err()
    );
    assert_eq!(case.listing(), ["x"]);
}
