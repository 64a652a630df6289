//! Under which name was this executable started? The paths that may have led here, and
//! which files are ourselves. Identity is device and inode, never a name, so copies,
//! renames and bind mounts do not deceive it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use getgpu_linux::{Chain, Identity, PREFIX, directories, identity, is_cudawrap, procfs};

/// The files that are this executable: the one that the kernel runs, and the one that the path of
/// /proc/self/exe leads to. They differ under valgrind, which answers for the program it runs.
#[derive(Clone, Debug)]
pub struct Ourselves(Vec<Identity>);

impl Ourselves {
    /// Looks at /proc/self/exe; none if /proc is not mounted.
    pub fn find() -> Option<Self> {
        let link = Path::new("/proc/self/exe");
        // An upgrade that replaced our executable a moment ago: the new one under its
        // path is us too.
        let path = procfs::executable("self");
        let known: Vec<Identity> = [identity(link), path.and_then(|path| identity(&path))]
            .into_iter()
            .flatten()
            .collect();
        (!known.is_empty()).then_some(Self(known))
    }

    /// The file that a path leads to.
    pub fn at(path: &Path) -> Option<Self> {
        identity(path).map(|known| Self(vec![known]))
    }

    /// Whether `path` leads to our executable or to any other cudawrap: executing that
    /// would lead here again.
    pub fn behind(&self, path: &Path) -> bool {
        identity(path).is_some_and(|id| self.is(id)) || is_cudawrap(path)
    }

    /// Whether this file is our executable.
    pub fn is(&self, identity: Identity) -> bool {
        self.0.contains(&identity)
    }
}

/// While a path is being wrapped, this executable may be started as `CUDAWRAP_x`. For each link on
/// the way that has such a name, the last one first: `x` beside it.
pub fn unprefixed(chain: &Chain) -> impl Iterator<Item = PathBuf> {
    chain.hops.iter().rev().filter_map(|hop| {
        let name = hop
            .file_name()?
            .as_bytes()
            .strip_prefix(PREFIX.as_bytes())?;
        Some(hop.with_file_name(OsStr::from_bytes(name)))
    })
}

/// The name that it was started under.
pub fn first_name(chain: &Chain) -> Option<&OsStr> {
    chain.hops.first().and_then(|hop| hop.file_name())
}

/// A descriptor's path, as fexecve(3) leaves it: it says nothing of a name.
pub fn nameless(chain: &Chain) -> bool {
    let first = chain
        .hops
        .first()
        .map(|hop| hop.as_os_str().as_bytes())
        .unwrap_or_default();
    first.starts_with(b"/dev/fd/") || first.starts_with(b"/proc/")
}

/// The paths under which we may have been started, best first: AT_EXECFN, `argv[0]` with
/// a slash, a bare `argv[0]` in PATH.
pub fn candidates(
    exec_path: Option<OsString>,
    first_argument: Option<&OsStr>,
    path: Option<&OsStr>,
) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = exec_path
        .filter(|p| !p.is_empty())
        .map(PathBuf::from)
        .into_iter()
        .collect();
    match first_argument {
        Some(name) if name.as_bytes().contains(&b'/') => found.push(name.into()),
        Some(name) if !name.is_empty() => {
            found.extend(directories(path).into_iter().map(|dir| dir.join(name)));
        }
        _ => {}
    }
    found
}
