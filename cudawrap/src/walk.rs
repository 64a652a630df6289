//! Under which name was this executable started? Walks from the invoked path along its links, hop by hop, to ourselves.
//! Identity is device and inode, never a name, so copies, renames and bind mounts do not deceive it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Links followed before a chain counts as a loop (the kernel's own limit, path_resolution(7)).
const MOST_HOPS: usize = 40;
/// What the program is called beside its link.
const PREFIX: &[u8] = b"CUDAWRAP_";

/// Device and inode.
pub type Identity = (u64, u64);

/// What `path` leads to, links followed.
pub fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Ourselves: as the kernel has it, and as the path of /proc/self/exe leads to, which valgrind answers for the program it runs.
#[derive(Clone, Debug)]
pub struct Ourselves(Vec<Identity>);

impl Ourselves {
    /// Looks at /proc/self/exe; none if /proc is not mounted.
    pub fn find() -> Option<Self> {
        let link = Path::new("/proc/self/exe");
        // An upgrade that replaced our executable a moment ago: the new one under its path is us too.
        let path = std::fs::read_link(link).ok().map(|path| {
            let bytes = path.as_os_str().as_bytes();
            PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)))
        });
        let known: Vec<Identity> =
            [identity(link), path.and_then(|path| identity(&path))].into_iter().flatten().collect();
        (!known.is_empty()).then_some(Self(known))
    }

    /// A file in our place, for tests.
    #[cfg(test)]
    pub fn played_by(path: &Path) -> Self {
        Self(identity(path).into_iter().collect())
    }

    /// Whether `path` leads to our executable or to any other cudawrap: executing that would lead here again.
    pub fn behind(&self, path: &Path) -> bool {
        identity(path).is_some_and(|id| self.is(id)) || is_cudawrap(path)
    }

    /// Whether this file is our executable.
    pub fn is(&self, identity: Identity) -> bool {
        self.0.contains(&identity)
    }
}

/// A chain of links, from the invoked path to the file at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Every hop, the file last.
    pub hops: Vec<PathBuf>,
    /// What the last hop is; none if there is nothing.
    pub end: Option<Identity>,
}

/// Follows the links of `path`. Lexical, so that a relative path stays relative to the working directory.
pub fn chain(path: &Path) -> Chain {
    let mut hops = vec![path.to_owned()];
    let mut here = path.to_owned();
    while hops.len() <= MOST_HOPS {
        let Ok(target) = std::fs::read_link(&here) else { break };
        here = here.parent().unwrap_or(Path::new("")).join(target);
        hops.push(here.clone());
    }
    Chain { end: identity(path), hops }
}

impl Chain {
    /// The program behind the last hop that has one: `CUDAWRAP_name` beside `name`. One that leads to a cudawrap, under
    /// whatever name it is ourselves, is none.
    pub fn sibling(&self, ourselves: &Ourselves) -> Option<PathBuf> {
        let there = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok() && !ourselves.behind(path);
        self.hops.iter().rev().filter_map(|hop| beside(hop, PREFIX)).find(there)
    }

    /// Started as `CUDAWRAP_x` (a wrap in progress): the program `x` beside it, if that is not ourselves.
    pub fn unprefixed(&self, ourselves: &Ourselves) -> Option<PathBuf> {
        let original = |hop: &PathBuf| {
            let name = hop.file_name()?.as_bytes().strip_prefix(PREFIX)?;
            Some(hop.with_file_name(OsStr::from_bytes(name)))
        };
        self.hops.iter().rev().filter_map(original).find(|path| identity(path).is_some() && !ourselves.behind(path))
    }

    /// The name that it was started under.
    pub fn first_name(&self) -> Option<&OsStr> {
        self.hops.first().and_then(|hop| hop.file_name())
    }

    /// The links: every hop but the file at the end, whose own directory is nobody's place in PATH; a file under another name stands for a link.
    pub fn links(&self) -> &[PathBuf] {
        let links = self.hops.len().saturating_sub(1).max(1);
        self.hops.get(..links).unwrap_or_default()
    }

    /// The name of the link nearest to ourselves.
    pub fn link_name(&self) -> Option<&OsStr> {
        self.links().last().and_then(|hop| hop.file_name())
    }

    /// A descriptor's path, as fexecve(3) leaves it: it says nothing of a name.
    pub fn nameless(&self) -> bool {
        let first = self.hops.first().map(|hop| hop.as_os_str().as_bytes()).unwrap_or_default();
        first.starts_with(b"/dev/fd/") || first.starts_with(b"/proc/")
    }
}

/// Whether a path resolves to a program called cudawrap, of whatever installation.
pub fn is_cudawrap(path: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|path| path.file_name() == Some(OsStr::new("cudawrap")))
}

fn beside(hop: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let name = hop.file_name()?;
    Some(hop.with_file_name(OsString::from_vec([prefix, name.as_bytes()].concat())))
}

/// The paths under which we may have been started, best first: AT_EXECFN, `argv[0]` with a slash, a bare `argv[0]` in PATH.
pub fn candidates(exec_path: Option<OsString>, first_argument: Option<&OsStr>, path: Option<&OsStr>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = exec_path.filter(|p| !p.is_empty()).map(PathBuf::from).into_iter().collect();
    match first_argument {
        Some(name) if name.as_bytes().contains(&b'/') => found.push(name.into()),
        Some(name) if !name.is_empty() => found.extend(directories(path).into_iter().map(|dir| dir.join(name))),
        _ => {}
    }
    found
}

/// The directories of PATH; an empty one is the working directory (environ(7)).
pub fn directories(path: Option<&OsStr>) -> Vec<PathBuf> {
    let Some(path) = path else { return Vec::new() };
    let entries = path.as_bytes().split(|b| *b == b':');
    entries.map(|entry| if entry.is_empty() { ".".into() } else { PathBuf::from(OsStr::from_bytes(entry)) }).collect()
}
