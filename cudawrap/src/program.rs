//! Which program is meant: the sibling of the link, the next one of the name in PATH, or, under our own name, the one that was typed.
//! Every file that resolves to a program called cudawrap is left out, since two cudawraps must not execute each other for ever.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use getgpu_common::error::{Failure, Kind};
use getgpu_common::sys;

use crate::walk::{self, Chain, Ourselves};

/// How we were called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// As cudawrap: the arguments are ours.
    OwnName,
    /// As a link: every argument is the program's.
    Link(PathBuf),
}

/// Finds out how we were called.
pub fn find(first_argument: Option<&OsStr>, path: Option<&OsStr>) -> Result<Called, Failure> {
    let ourselves = Ourselves::find().ok_or_else(|| {
        Failure::new(Kind::Refused, "/proc is not mounted: cannot tell under which name this was started")
    })?;
    locate(sys::exec_path(), first_argument, path, &ourselves)
}

/// The same for given ways to name us.
fn locate(
    exec_path: Option<OsString>,
    first_argument: Option<&OsStr>,
    path: Option<&OsStr>,
    ourselves: &Ourselves,
) -> Result<Called, Failure> {
    let chains: Vec<Chain> = walk::candidates(exec_path, first_argument, path).iter().map(|p| walk::chain(p)).collect();
    let ours: Vec<&Chain> = chains.iter().filter(|chain| chain.end.is_some_and(|end| ourselves.is(end))).collect();
    if let Some(program) = ours.iter().find_map(|chain| chain.sibling(ourselves)) {
        return Ok(Called::Link(program));
    }
    if let Some(program) = ours.iter().find_map(|chain| chain.unprefixed(ourselves)) {
        return Ok(Called::Link(program));
    }
    let named = ours.iter().find(|chain| !chain.nameless());
    match named {
        Some(chain) if chain.first_name() == Some(OsStr::new("cudawrap")) => Ok(Called::OwnName),
        Some(chain) => next_in_path(chain, path, ourselves).map(Called::Link),
        None => replaced(&chains, first_argument, ourselves).map(Called::Link),
    }
}

/// A link without a sibling, as in a directory of links: the next program of that name in PATH behind the link's directory.
fn next_in_path(chain: &Chain, path: Option<&OsStr>, ourselves: &Ourselves) -> Result<PathBuf, Failure> {
    let name = chain.link_name().unwrap_or_default();
    let directories = walk::directories(path);
    let is_link_directory = |directory: &PathBuf| {
        let directory = walk::identity(directory);
        directory.is_some()
            && chain
                .links()
                .iter()
                .any(|hop| hop.parent().is_some_and(|parent| walk::identity(or_here(parent)) == directory))
    };
    let behind = directories.iter().position(is_link_directory).map_or(0, |place| place + 1);
    // Looked through one by one: joined again, no directory at all would be an empty PATH, which stands for the working directory.
    let rest = directories.get(behind..).unwrap_or_default().iter().map(|directory| directory.join(name));
    let runs = |path: &PathBuf| path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok();
    let mut found = rest.filter(|path| runs(path) && !ourselves.behind(path));
    found.next().ok_or_else(|| {
        let shown = chain.hops.first().map(|hop| hop.display().to_string()).unwrap_or_default();
        let name = name.to_string_lossy();
        Failure::new(
            Kind::NotFound,
            format!("{shown}: there is no CUDAWRAP_{name} beside it and no other {name} in PATH"),
        )
        .hint("create-cudawrap --status shows what is wrapped")
    })
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// No path leads to us any more: the link was replaced while we started (undone, upgraded). What is there now is the program.
fn replaced(chains: &[Chain], first_argument: Option<&OsStr>, ourselves: &Ourselves) -> Result<PathBuf, Failure> {
    let fits = |chain: &&Chain| {
        let name = chain.first_name();
        // AT_EXECFN of a `#!` file is the script; only its interpreter can have been us.
        let same_name = first_argument.is_some_and(|argument| Path::new(argument).file_name() == name);
        same_name
            && !chain.nameless()
            && chain.end.is_some_and(|end| !ourselves.is(end))
            && chain.hops.last().is_some_and(|end| executable(end) && !walk::is_cudawrap(end))
    };
    let found = chains.iter().find(fits).and_then(|chain| chain.hops.first().cloned());
    found.ok_or_else(|| {
        Failure::new(Kind::Refused, "cannot tell under which name this was started (by descriptor, or through ld.so?)")
            .hint("start it by its path")
    })
}

fn executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The program that was typed behind our own name: a path as it is, a bare name by PATH, as execvp(3) finds it.
pub fn typed(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path: OsString = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    if let Ok(found) = which::which_in(name, Some(&path), ".") {
        return Ok(found);
    }
    let there = walk::directories(Some(&path)).into_iter().map(|dir| dir.join(name)).find(|path| path.exists());
    let shown = name.to_string_lossy();
    Err(match there {
        Some(path) => Failure::new(Kind::CannotRun, format!("{}: Permission denied", path.display())),
        None => Failure::new(Kind::NotFound, format!("{shown}: no such program in PATH")),
    })
}

#[cfg(test)]
#[path = "program_properties.rs"]
mod properties;
