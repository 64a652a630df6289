//! A directory in one of the states of a path, and the plans that are made for it.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use create_cudawrap::apply::{Stop, Work, apply};
use create_cudawrap::directory::{Directory, Renames};
use create_cudawrap::inspect::{Seen, look};
use create_cudawrap::names::Names;
use create_cudawrap::plan::{Goal, Method, Plan, Request, plan};

pub(crate) struct Case {
    pub(crate) root: tempfile::TempDir,
    pub(crate) dir: Directory,
    pub(crate) names: Names,
    pub(crate) wrapper: PathBuf,
    pub(crate) method: Method,
}

/// A state by its name, and the files that make it.
type Start = (&'static str, fn(&Case));

pub(crate) const STARTS: &[Start] = &[
    ("plain", |c| c.program("x")),
    ("wrapped", |c| {
        c.program("CUDAWRAP_x");
        c.ours("x");
    }),
    ("half", |c| {
        c.program("x");
        c.ours("CUDAWRAP_x");
    }),
    ("half, elsewhere", |c| {
        c.program("x");
        c.link("/nowhere/cudawrap", "CUDAWRAP_x");
    }),
    ("same file", |c| {
        c.program("x");
        std::fs::hard_link(c.at("x"), c.at("CUDAWRAP_x")).unwrap();
    }),
    ("upgraded", |c| {
        c.program("x");
        c.program("CUDAWRAP_x");
    }),
    ("vanished", |c| {
        c.program("CUDAWRAP_x");
        c.link("/nowhere/cudawrap", "x");
    }),
    ("orphan", |c| c.program("CUDAWRAP_x")),
];

impl Case {
    pub(crate) fn new(method: Method) -> Self {
        let root = tempfile::tempdir().unwrap();
        let wrapper = root.path().join("cudawrap");
        executable(&wrapper);
        std::fs::create_dir(root.path().join("d")).unwrap();
        let dir = open(&root.path().join("d"), method);
        Self {
            root,
            dir,
            names: Names::of(OsStr::new("x")),
            wrapper,
            method,
        }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.path().join("d").join(name)
    }

    pub(crate) fn program(&self, name: &str) {
        executable(&self.at(name));
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

    pub(crate) fn apply(&self, seen: &Seen, plan: &Plan) -> Result<(), Stop> {
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

fn executable(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(path)
        .unwrap();
}

/// Opens a directory as on a file system that can exchange names, or on one that cannot.
pub(crate) fn open(directory: &Path, method: Method) -> Directory {
    let renames = match method {
        Method::Exchange => Renames::System,
        Method::Replace => Renames::Plain,
    };
    Directory::open_with(directory, renames).unwrap()
}

/// Carries out a plan in `dir`, where new links lead to `wrapper` and dpkg knows nothing.
pub(crate) fn carry_out(
    dir: &Directory,
    names: &Names,
    wrapper: &Path,
    seen: &Seen,
    plan: &Plan,
) -> Result<(), Stop> {
    let work = Work {
        dir,
        names,
        wrapper: wrapper.as_os_str(),
        own: None,
        known_as: Path::new(""),
    };
    apply(&work, seen, plan)
}
