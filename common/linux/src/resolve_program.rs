//! What a path runs, whatever is wrapped on the way: the one rule for cudawrap, which
//! executes that program, and create-cudawrap, which must never remove it. Reads links
//! only; identity is device and inode, so that copies, renames and bind mounts do not
//! deceive it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::installed::can_run;

/// What a program's name begins with once its path is a link to cudawrap.
pub const PREFIX: &str = "CUDAWRAP_";
/// What stands between a wrapped program's name and a number in the name of an older one,
/// which create-cudawrap keeps: `CUDAWRAP_app.replaced-1`.
pub const KEPT: &str = ".replaced-";
/// What the program behind the links is called.
const WRAPPER: &str = "cudawrap";
/// Links followed before a chain counts as a loop (the kernel's own limit,
/// path_resolution(7)).
const MOST_HOPS: usize = 40;

/// Device and inode.
pub type Identity = (u64, u64);

/// A program's own name, whether or not it is wrapped.
pub fn program_name(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(PREFIX).unwrap_or(&name).to_owned()
}

/// What `path` leads to, links followed.
pub fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path)
        .ok()
        .map(|meta| (meta.dev(), meta.ino()))
}

/// A chain of links, from a path to the file at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Every hop, the file last.
    pub hops: Vec<PathBuf>,
    /// What the last hop is; none if there is nothing.
    pub end: Option<Identity>,
}

/// Follows the links of `path`. Lexical, so that a relative path stays relative to the
/// working directory.
pub fn chain(path: &Path) -> Chain {
    let mut hops = vec![path.to_owned()];
    let mut here = path.to_owned();
    while hops.len() <= MOST_HOPS {
        let Ok(target) = std::fs::read_link(&here) else {
            break;
        };
        here = here.parent().unwrap_or(Path::new("")).join(target);
        hops.push(here.clone());
    }
    // Of the hop that was read last, and not of the path: that may have been unwrapped since
    // its link was read, and hops and end would be of two moments.
    Chain {
        end: identity(&here),
        hops,
    }
}

impl Chain {
    /// The links: every hop but the file at the end, whose own directory does not count
    /// as a place in PATH; a file under another name stands for a link.
    pub(crate) fn links(&self) -> &[PathBuf] {
        let links = self.hops.len().saturating_sub(1).max(1);
        self.hops.get(..links).unwrap_or_default()
    }

    /// The name of the link nearest to the end.
    pub fn link_name(&self) -> Option<&OsStr> {
        self.links().last().and_then(|hop| hop.file_name())
    }
}

/// Whether a path leads to a program called cudawrap, of whatever installation, or to the
/// place of one that is gone.
pub fn is_cudawrap(path: &Path) -> bool {
    let end = std::fs::canonicalize(path)
        .ok()
        .or_else(|| chain(path).hops.pop());
    end.is_some_and(|end| end.ends_with(WRAPPER))
}

/// `app` of `app.replaced-1`. Such a path is never wrapped: what would be its program is an
/// older one of `app`'s.
pub fn without_number(name: &OsStr) -> Option<&OsStr> {
    let bytes = name.as_bytes();
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let (start, number) = bytes.split_at(bytes.len() - digits.count());
    let app = start.strip_suffix(KEPT.as_bytes())?;
    (!number.is_empty() && !app.is_empty()).then(|| OsStr::from_bytes(app))
}

/// `CUDAWRAP_name` beside `hop`.
pub fn beside(hop: &Path) -> Option<PathBuf> {
    let name = hop
        .file_name()
        .filter(|name| without_number(name).is_none())?;
    Some(hop.with_file_name(OsString::from_vec(
        [PREFIX.as_bytes(), name.as_bytes()].concat(),
    )))
}

/// The directories of PATH; an empty one is the working directory (environ(7)).
pub fn directories(path: Option<&OsStr>) -> Vec<PathBuf> {
    let entries = path.into_iter().flat_map(std::env::split_paths);
    entries.map(|entry| or_here(&entry).to_owned()).collect()
}

/// The program that a path runs, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// What is to be executed; itself perhaps a link, but not to a cudawrap.
    pub program: PathBuf,
    /// Every name on the way, the program's and those that it is a link to included.
    pub(crate) trail: Vec<PathBuf>,
}

impl Resolution {
    /// Whether `name` in this directory is on the way.
    pub fn passes(&self, directory: Identity, name: &OsStr) -> bool {
        let mut trail = self.trail.iter();
        trail.any(|hop| hop.ends_with(name) && directory_of(hop) == Some(directory))
    }
}

/// The rule, for a caller that takes certain files for cudawraps.
pub struct Rule<'a> {
    /// Whether executing this path starts a cudawrap.
    pub is_wrapper: &'a dyn Fn(&Path) -> bool,
    /// The directories of PATH; without any, only what is beside links counts.
    pub directories: &'a [PathBuf],
}

/// One application of the rule: where it has been, so that links that lead in circles end
/// it, and the way to where it is.
#[derive(Default)]
struct PathSearch {
    /// By directory and name: a path that leads in circles is another one in each round.
    visited: Vec<(Option<Identity>, OsString)>,
    trail: Vec<PathBuf>,
}

impl PathSearch {
    fn of(chain: &Chain) -> Self {
        let mut search = Self {
            visited: Vec::new(),
            trail: chain.hops.clone(),
        };
        for hop in &chain.hops {
            search.visit(hop);
        }
        search
    }

    /// Whether this is the first time.
    fn visit(&mut self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        let entry = (directory_of(path), name.to_owned());
        let new = self.visited.len() < MOST_HOPS * 10 && !self.visited.contains(&entry);
        if new {
            self.visited.push(entry);
        }
        new
    }

    fn found(self, program: PathBuf) -> Resolution {
        let trail = self.trail;
        Resolution { program, trail }
    }
}

impl Rule<'_> {
    /// What executing `path` runs: itself, or where it leads to a cudawrap what that
    /// finds.
    pub fn program(&self, path: &Path) -> Option<Resolution> {
        let mut search = PathSearch::default();
        let program = self.follow(path, &mut search)?;
        Some(search.found(program))
    }

    /// The program beside the last link of a chain that has one: `CUDAWRAP_name` beside
    /// `name`. Where that leads to a cudawrap again, what is beside the links of its own
    /// chain.
    pub fn beside(&self, chain: &Chain) -> Option<Resolution> {
        let mut search = PathSearch::of(chain);
        let program = self.sibling(chain, &mut search)?;
        Some(search.found(program))
    }

    /// The next program of its name in PATH behind the links' directories (in all of PATH
    /// if none of them is there).
    pub fn in_path(&self, chain: &Chain) -> Option<Resolution> {
        let mut search = PathSearch::of(chain);
        let program = self.next(chain, &mut search)?;
        Some(search.found(program))
    }

    fn follow(&self, path: &Path, search: &mut PathSearch) -> Option<PathBuf> {
        if !search.visit(path) {
            return None;
        }
        let (chain, before) = (chain(path), search.trail.len());
        search.trail.extend(chain.hops.iter().cloned());
        if !(self.is_wrapper)(path) {
            return Some(path.to_owned());
        }
        let found = self
            .sibling(&chain, search)
            .or_else(|| self.next(&chain, search));
        if found.is_none() {
            search.trail.truncate(before);
        }
        found
    }

    fn sibling(&self, chain: &Chain, search: &mut PathSearch) -> Option<PathBuf> {
        let mut siblings = chain
            .hops
            .iter()
            .rev()
            .filter_map(|hop| beside(hop))
            .filter(|path| std::fs::symlink_metadata(path).is_ok());
        siblings.find_map(|path| self.follow(&path, search))
    }

    fn next(&self, chain: &Chain, search: &mut PathSearch) -> Option<PathBuf> {
        let name = chain.link_name()?;
        let behind = self
            .directories
            .iter()
            .position(|directory| {
                let directory = identity(directory);
                let mut links = chain.links().iter();
                directory.is_some() && links.any(|hop| directory_of(hop) == directory)
            })
            .map_or(0, |place| place + 1);
        // Looked through one by one: joined again, no directory at all would be an empty
        // PATH, which stands for the working directory.
        let rest = self
            .directories
            .get(behind..)
            .unwrap_or_default()
            .iter()
            .map(|directory| directory.join(name));
        rest.filter(|path| can_run(path))
            .find_map(|path| self.follow(&path, search))
    }
}

fn directory_of(path: &Path) -> Option<Identity> {
    identity(or_here(path.parent()?))
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

#[cfg(test)]
#[path = "resolve_program_tests.rs"]
mod tests;
