//! A directory in one of the layouts, and the plans that are made for it.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use create_cudawrap::apply::{Work, apply};
use create_cudawrap::directory::Directory;
use create_cudawrap::inspect::{PathSnapshot, snapshot};
use create_cudawrap::names::Names;
use create_cudawrap::plan::{Goal, Plan, plan};
use create_cudawrap::state::state;
use getgpu_model::Failure;

use crate::layouts::{Layout, Thing, X, file, put_cudawrap};
use crate::path_model::{Found, Snapshot};

/// Where the links to cudawrap lead.
const WRAPPER: &str = "../cudawrap";

/// A place for cases, one after the other, with what their links lead to.
pub(crate) fn ground() -> tempfile::TempDir {
    // In memory, where that may be written.
    let ground = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let ground = ground.unwrap();
    let root = ground.path();
    put_cudawrap(&root.join("cudawrap"));
    put_cudawrap(&root.join("copy"));
    std::fs::create_dir(root.join("d")).unwrap();
    std::fs::create_dir(root.join("e")).unwrap();
    symlink("../d/CUDAWRAP_x", root.join("e/loop-to-hidden")).unwrap();
    ground
}

pub(crate) struct Case {
    root: PathBuf,
    dir: Directory,
    names: Names,
}

impl Case {
    pub(crate) fn new(root: &Path, layout: &Layout) -> Self {
        for entry in std::fs::read_dir(root.join("d")).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let case = Self {
            dir: Directory::open(&root.join("d")).unwrap(),
            root: root.to_owned(),
            names: Names::of(OsStr::new(X)),
        };
        for (name, thing) in &layout.entries {
            case.put(name, *thing);
        }
        case
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.join("d").join(name)
    }

    pub(crate) fn put(&self, name: &str, thing: Thing) {
        let at = self.at(name);
        match thing {
            Thing::Nothing => {}
            Thing::Program(content) => file(&at, &format!("#!{content}"), 0o755),
            Thing::Data => file(&at, "--D", 0o644),
            Thing::Empty => file(&at, "", 0o755),
            Thing::Caller => file(&at, "#!S exec CUDAWRAP_$name", 0o755),
            Thing::Copy => std::fs::hard_link(self.root.join("copy"), at).unwrap(),
            // Nothing where there is nothing to have a second name.
            Thing::SameAs(other) => drop(std::fs::hard_link(self.at(other), at)),
            Thing::Link(text) => symlink(text, at).unwrap(),
        }
    }

    pub(crate) fn seen(&self) -> PathSnapshot {
        snapshot(&self.dir, &self.names, None).unwrap()
    }

    /// The plan for what was seen, if there is one.
    pub(crate) fn plan(&self, seen: &PathSnapshot, goal: Goal) -> Option<Plan> {
        plan(seen, state(seen), goal, None).ok()
    }

    pub(crate) fn apply(&self, seen: &PathSnapshot, plan: &Plan) -> Result<(), Failure> {
        let work = Work {
            dir: &self.dir,
            names: &self.names,
            wrapper: OsStr::new(WRAPPER),
            own: None,
        };
        apply(&work, seen, plan)
    }

    /// What lies there, for the model.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let copy = std::fs::metadata(self.root.join("copy")).unwrap().ino();
        let entries = std::fs::read_dir(self.root.join("d")).unwrap();
        let found = entries.map(|entry| {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let found = if meta.is_symlink() {
                let text = std::fs::read_link(&path).unwrap();
                Found::Link {
                    inode: meta.ino(),
                    text: text.to_str().unwrap().to_owned(),
                }
            } else if meta.ino() == copy {
                Found::Copy
            } else {
                let content = std::fs::read_to_string(&path).unwrap().chars().nth(2);
                Found::File {
                    inode: meta.ino(),
                    content: content.unwrap_or('E'),
                    runs: meta.mode() & 0o111 != 0 && meta.len() > 0,
                }
            };
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.to_owned(), found)
        });
        found.collect()
    }
}
