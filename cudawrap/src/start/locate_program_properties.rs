//! What must hold however directories, links and programs lie, and whatever we are told
//! to have been called as: the program is never a cudawrap, never outside the directories
//! that may be looked in, and has the name that was meant.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Called, locate};
use crate::start::invoked_path::{self, Ourselves};
use getgpu_linux::{beside, chain, directories, identity, is_cudawrap};

const DIRS: [&str; 3] = ["a", "b", "c"];
#[rustfmt::skip]
const NAMES: [&str; 6] = [
    "x", "y", "CUDAWRAP_x", "CUDAWRAP_y", "cudawrap", "CUDAWRAP_CUDAWRAP_x",
];

/// What lies under a name.
#[derive(Clone, Debug)]
enum Thing {
    Program,
    NoProgram,
    Directory,
    /// Another name of our executable.
    Us,
    /// To a name, in the same directory or in another one.
    Link(Option<usize>, usize),
    /// To our executable.
    ToUs,
    /// To another cudawrap.
    ToOther,
}

fn thing() -> impl Strategy<Value = Thing> {
    let link = (prop::option::of(0..DIRS.len()), 0..NAMES.len())
        .prop_map(|(dir, name)| Thing::Link(dir, name));
    prop_oneof![
        3 => Just(Thing::Program), 1 => Just(Thing::NoProgram), 1 => Just(Thing::Directory), 1 => Just(Thing::Us),
        3 => link, 4 => Just(Thing::ToUs), 1 => Just(Thing::ToOther),
    ]
}

fn executable(path: &Path, mode: u32) {
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn lay(root: &Path, at: &Path, thing: &Thing) {
    match thing {
        Thing::Program => executable(at, 0o755),
        Thing::NoProgram => executable(at, 0o644),
        Thing::Directory => fs::create_dir(at).unwrap(),
        Thing::Us => fs::hard_link(root.join("ours/wrapper"), at).unwrap(),
        Thing::Link(None, name) => symlink(NAMES[*name], at).unwrap(),
        Thing::Link(Some(dir), name) => {
            symlink(Path::new("..").join(DIRS[*dir]).join(NAMES[*name]), at).unwrap();
        }
        Thing::ToUs => symlink(root.join("ours/wrapper"), at).unwrap(),
        Thing::ToOther => symlink(root.join("other/cudawrap"), at).unwrap(),
    }
}

/// A path as a user may have typed it: below one of the directories, or a name alone,
/// or anything.
fn typed() -> impl Strategy<Value = (Option<usize>, String)> {
    let name = prop_oneof![8 => prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned), 1 => "[a-z/.]{0,6}"];
    (
        prop_oneof![3 => (0..DIRS.len()).prop_map(Some), 1 => Just(None)],
        name,
    )
}

fn path_of(root: &Path, (dir, name): &(Option<usize>, String)) -> OsString {
    dir.map_or_else(
        || name.into(),
        |dir| root.join(DIRS[dir]).join(name).into_os_string(),
    )
}

/// Every hop of these paths, of what is beside a hop as its program or, where wrapping is
/// in progress, as its link, and of what has its name in PATH.
fn reachable(paths: &[PathBuf], path: Option<&OsStr>) -> Vec<PathBuf> {
    let mut hops: Vec<PathBuf> = paths.iter().flat_map(|path| chain(path).hops).collect();
    let mut at = 0;
    while at < hops.len() {
        let name = hops[at].file_name().unwrap_or_default().to_owned();
        let in_path = directories(path).into_iter().map(|dir| dir.join(&name));
        let links = chain(&hops[at]);
        let next = beside(&hops[at]).into_iter();
        let next = next.chain(invoked_path::unprefixed(&links)).chain(in_path);
        for hop in next.flat_map(|path| chain(&path).hops) {
            if !hops.contains(&hop) && hops.len() < 200 {
                hops.push(hop);
            }
        }
        at += 1;
    }
    hops
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_program_is_never_a_cudawrap_and_never_from_elsewhere(
        things in prop::collection::vec(prop::option::weighted(0.6, thing()), DIRS.len() * NAMES.len()),
        exec_path in prop::option::of(typed()), first in prop::option::of(typed()),
        path in prop::option::of(prop::collection::vec(0..DIRS.len(), 0..4)),
        stranger in any::<bool>(),
    ) {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        for dir in DIRS.iter().chain(&["ours", "other"]) {
            fs::create_dir(root.join(dir)).unwrap();
        }
        executable(&root.join("other/cudawrap"), 0o755);
        executable(&root.join("ours/wrapper"), 0o755);
        if !stranger {
            fs::rename(root.join("ours/wrapper"), root.join("ours/cudawrap")).unwrap();
            symlink("cudawrap", root.join("ours/wrapper")).unwrap();
        }
        let ourselves = Ourselves::at(&root.join("ours/wrapper")).unwrap();
        for (place, thing) in things.iter().enumerate() {
            if let Some(thing) = thing {
                // A hard link to a link would be one more link: give it the file itself.
                let at = root.join(DIRS[place / NAMES.len()]).join(NAMES[place % NAMES.len()]);
                if let (Thing::Us, false) = (thing, stranger) {
                    fs::hard_link(root.join("ours/cudawrap"), at).unwrap();
                } else {
                    lay(&root, &at, thing);
                }
            }
        }
        let path = path.map(|dirs| std::env::join_paths(dirs.iter().map(|dir| root.join(DIRS[*dir]))).unwrap());
        let exec_path = exec_path.map(|typed| path_of(&root, &typed));
        let first = first.map(|typed| path_of(&root, &typed));
        let candidates = invoked_path::candidates(exec_path.clone(), first.as_deref(), path.as_deref());
        match locate(exec_path, first.as_deref(), path.as_deref(), &ourselves) {
            Ok(Called::Link(program)) => {
                prop_assert!(!identity(&program).is_some_and(|id| ourselves.is(id)), "ourselves: {:?}", program);
                prop_assert!(!is_cudawrap(&program), "a cudawrap: {:?}", program);
                let hops = reachable(&candidates, path.as_deref());
                let parent = program.parent().unwrap();
                let in_path = path.iter().flat_map(|path| std::env::split_paths(path)).any(|dir| dir == parent);
                let beside = hops.iter().any(|hop| hop.parent() == Some(parent));
                prop_assert!(beside || in_path, "elsewhere: {:?}", program);
                let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let bare = name(&program).trim_start_matches(getgpu_linux::PREFIX).to_owned();
                prop_assert!(hops.iter().any(|hop| name(hop).trim_start_matches(getgpu_linux::PREFIX) == bare), "{:?}", program);
            }
            Ok(Called::OwnName) => prop_assert!(candidates.iter().any(|path| path.file_name() == Some(OsStr::new("cudawrap")))),
            Err(failure) => prop_assert!(!failure.message.is_empty()),
        }
    }

    #[test]
    fn a_wrapped_path_is_its_program_whatever_lies_elsewhere(
        things in prop::collection::vec(prop::option::weighted(0.6, thing()), NAMES.len()),
        hops in 0usize..4, by_path in any::<bool>(),
    ) {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        for dir in ["a", "b", "c", "ours", "other"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        executable(&root.join("other/cudawrap"), 0o755);
        executable(&root.join("ours/wrapper"), 0o755);
        for (name, thing) in NAMES.iter().zip(&things) {
            thing.iter().for_each(|thing| lay(&root, &root.join("b").join(name), thing));
        }
        executable(&root.join("a/CUDAWRAP_x"), 0o755);
        symlink("../ours/wrapper", root.join("a/x")).unwrap();
        // Links on the way have no program beside them.
        let mut last = PathBuf::from("a/x");
        for hop in 0..hops {
            let next = PathBuf::from(format!("c/link{hop}"));
            symlink(Path::new("..").join(&last), root.join(&next)).unwrap();
            last = next;
        }
        let ourselves = Ourselves::at(&root.join("ours/wrapper")).unwrap();
        let started = root.join(&last).into_os_string();
        let path = std::env::join_paths([root.join("c"), root.join("a"), root.join("b")]).unwrap();
        let exec_path = (!by_path).then(|| started.clone());
        let first = if by_path { last.file_name().unwrap().to_owned() } else { "-anything".into() };
        let Called::Link(program) = locate(exec_path, Some(&first), Some(&path), &ourselves).unwrap() else { panic!("own name") };
        prop_assert_eq!(program.canonicalize().unwrap(), root.join("a/CUDAWRAP_x"));
    }
}
