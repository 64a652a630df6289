//! A directory in one of the states of a path, and the plans that are made for it.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use create_cudawrap::apply::{Work, apply};
use create_cudawrap::directory::Directory;
use create_cudawrap::inspect::{Seen, look};
use create_cudawrap::names::Names;
use create_cudawrap::plan::{Goal, Plan, Request, plan};
use create_cudawrap::state::state;
use getgpu_common::error::Failure;

use crate::layouts::{file, put_cudawrap};

pub(crate) struct Case {
    pub(crate) root: tempfile::TempDir,
    pub(crate) dir: Directory,
    pub(crate) names: Names,
    pub(crate) wrapper: PathBuf,
}

/// A state by its name, the files that make it, and whether the path can be wrapped,
/// undone and repaired to the end.
type Start = (&'static str, fn(&Case));

pub(crate) const STARTS: &[Start] = &[
    ("plain", |c| c.program("x")),
    ("wrapped", |c| {
        c.program("CUDAWRAP_x");
        c.ours("x");
    }),
    ("begun", |c| {
        c.program("x");
        std::fs::hard_link(c.at("x"), c.at("CUDAWRAP_x")).unwrap();
    }),
    ("unwrapped by hand", |c| {
        c.program("CUDAWRAP_x");
        c.link("CUDAWRAP_x", "x");
    }),
    ("upgraded", |c| {
        c.program("x");
        c.program("CUDAWRAP_x");
    }),
    ("copied", |c| {
        put_cudawrap(&c.at("x"));
        c.program("CUDAWRAP_x");
    }),
    ("vanished", |c| {
        c.program("CUDAWRAP_x");
        c.link("/nowhere/cudawrap", "x");
    }),
    ("orphan", |c| c.program("CUDAWRAP_x")),
];

impl Case {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let wrapper = root.path().join("cudawrap");
        put_cudawrap(&wrapper);
        std::fs::create_dir(root.path().join("d")).unwrap();
        let dir = Directory::open(&root.path().join("d")).unwrap();
        Self {
            root,
            dir,
            names: Names::of(OsStr::new("x")),
            wrapper,
        }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.path().join("d").join(name)
    }

    pub(crate) fn program(&self, name: &str) {
        file(&self.at(name), "#!A", 0o755);
    }

    pub(crate) fn ours(&self, name: &str) {
        self.link(&self.wrapper, name);
    }

    pub(crate) fn link(&self, text: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(text, self.at(name)).unwrap();
    }

    pub(crate) fn seen(&self) -> Seen {
        look(&self.dir, &self.names, None).unwrap()
    }

    pub(crate) fn plan(&self, goal: Goal) -> Option<Plan> {
        make_plan(&self.seen(), goal, &self.wrapper)
    }

    pub(crate) fn apply(&self, seen: &Seen, plan: &Plan) -> Result<(), Failure> {
        carry_out(&self.dir, &self.names, &self.wrapper, seen, plan)
    }

    /// What starts at the path would reach a program: at once, or by a cudawrap that is
    /// there and finds its sibling.
    pub(crate) fn runs(&self) -> bool {
        let seen = self.seen();
        seen.app.runs && (!seen.app.is_ours() || (seen.hidden.runs && !seen.hidden.is_ours()))
    }

    pub(crate) fn inode(&self, name: &str) -> u64 {
        self.at(name).symlink_metadata().unwrap().ino()
    }

    pub(crate) fn listing(&self) -> Vec<String> {
        let names = self.root.path().join("d").read_dir().unwrap();
        let mut names: Vec<String> = names
            .map(|n| n.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// The plan for what was seen, if there is one.
pub(crate) fn make_plan(seen: &Seen, goal: Goal, wrapper: &Path) -> Option<Plan> {
    let request = Request {
        goal,
        wrapper: wrapper.as_os_str(),
        named: false,
    };
    plan(seen, state(seen), &request).ok()
}

/// Carries out a plan in `dir`, where new links lead to `wrapper`.
pub(crate) fn carry_out(
    dir: &Directory,
    names: &Names,
    wrapper: &Path,
    seen: &Seen,
    plan: &Plan,
) -> Result<(), Failure> {
    let work = Work {
        dir,
        names,
        wrapper: wrapper.as_os_str(),
        own: None,
    };
    apply(&work, seen, plan)
}
