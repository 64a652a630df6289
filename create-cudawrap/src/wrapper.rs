//! Which cudawrap the links lead to, and which program cudawrap would find behind a link by PATH.
//! Relative entries of PATH are left out: what they mean depends on where the user happens to stand.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use getgpu_common::error::{Failure, Kind, reason};
use rustix::fs::Access;

use crate::identity::{Id, id};
use crate::names::WRAPPER;

/// The place of old: the links that lead there are served by whatever cudawrap lies there.
const SITE: &str = "/usr/local/share/gpus";

/// The cudawrap that links are made to.
#[derive(Clone, Debug)]
pub struct Wrapper {
    /// The text of the link: an absolute path, not resolved, so that it survives an upgrade of cudawrap.
    pub text: OsString,
    /// Which file it is now.
    pub id: Id,
    /// Whether the user named it.
    pub named: bool,
}

/// The cudawrap given by name, else the one beside our own executable, in PATH, or at the place of old.
pub fn find(named: Option<&Path>) -> Result<Wrapper, Failure> {
    if let Some(path) = named {
        return from_option(path);
    }
    let beside = env::current_exe().ok().and_then(|exe| exe.parent().map(|dir| dir.join(WRAPPER)));
    let in_path = || which::which_in_all(WRAPPER, Some(absolute_path()), "/").ok()?.next();
    let found = beside.filter(|path| runs(path)).or_else(in_path).or_else(|| Some(Path::new(SITE).join(WRAPPER)));
    match found.filter(|path| runs(path)).and_then(|path| Some((identity(&path)?, path))) {
        Some((id, path)) => Ok(Wrapper { text: path.into_os_string(), id, named: false }),
        None => Err(Failure::new(
            Kind::Refused,
            format!("{WRAPPER}: not found beside create-cudawrap, in PATH or in {SITE}"),
        )
        .hint("say where it is with --wrapper")),
    }
}

fn from_option(path: &Path) -> Result<Wrapper, Failure> {
    let refused = |why: &str| Failure::new(Kind::Refused, format!("--wrapper {}: {why}", path.display()));
    let absolute = std::path::absolute(path).map_err(|e| refused(&reason(&e)))?;
    let id = identity(&absolute).map_or_else(|| Err(refused("no such file")), Ok)?;
    if !runs(&absolute) {
        return Err(refused("not a program that you may run"));
    }
    if absolute.file_name() != Some(OsStr::new(WRAPPER)) {
        return Err(refused("its name must be cudawrap").hint("links to cudawrap are known by that name"));
    }
    Ok(Wrapper { text: absolute.into_os_string(), id, named: true })
}

/// The program called `name` that comes in PATH behind `dir` (anywhere in PATH when `dir` is not in it) and is not cudawrap.
pub fn behind(dir: &Path, name: &OsStr) -> Option<PathBuf> {
    let path = absolute_path();
    let mut dirs: Vec<PathBuf> = env::split_paths(&path).collect();
    if let Some(at) = dirs.iter().position(|entry| std::fs::canonicalize(entry).is_ok_and(|entry| entry == dir)) {
        dirs.drain(..=at);
    }
    let is_wrapper =
        |path: &Path| std::fs::canonicalize(path).is_ok_and(|end| end.file_name() == Some(OsStr::new(WRAPPER)));
    dirs.into_iter().map(|dir| dir.join(name)).find(|path| runs(path) && !is_wrapper(path))
}

/// The program called `name` in PATH.
pub fn tool(name: &str) -> Option<PathBuf> {
    which::which_in_all(name, Some(absolute_path()), "/").ok()?.next()
}

/// Which file a path leads to.
pub fn identity(path: &Path) -> Option<Id> {
    rustix::fs::stat(path).ok().map(|stat| id(&stat))
}

fn runs(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

fn absolute_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(env::split_paths(&path).filter(|entry| entry.is_absolute())).unwrap_or_default()
}
