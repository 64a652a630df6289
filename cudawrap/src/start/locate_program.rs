//! Which program is meant: the sibling of the link, the next one of the name in PATH, or,
//! under our own name, the one that was typed. Every file that resolves to a program
//! called cudawrap is left out, since two cudawraps must not execute each other for ever.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use getgpu_linux::{Chain, Rule, can_run, chain, directories, identity, is_cudawrap, sys};
use getgpu_model::Failure;

use crate::causes::{PathRemedy, StartCause};
use crate::options;
use crate::start::invoked_path::{self, Ourselves};

/// How we were called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// As cudawrap: the arguments are cudawrap's own.
    OwnName,
    /// As a link: every argument is the program's.
    Link(PathBuf),
}

/// Finds out how we were called.
pub fn find(first_argument: Option<&OsStr>, path: Option<&OsStr>) -> Result<Called, Failure> {
    let exec_path = sys::exec_path();
    // To be a plain exec needs no more than the path that the kernel was told to execute.
    let ourselves = Ourselves::find().or_else(|| {
        let disabled = options::disabled().unwrap_or(false);
        Ourselves::at(Path::new(exec_path.as_deref().filter(|_| disabled)?))
    });
    let Some(ourselves) = ourselves else {
        return Err(StartCause::NoProc.into());
    };
    locate(exec_path, first_argument, path, &ourselves)
}

/// The same for given ways to name us.
fn locate(
    exec_path: Option<OsString>,
    first_argument: Option<&OsStr>,
    path: Option<&OsStr>,
    ourselves: &Ourselves,
) -> Result<Called, Failure> {
    let given = exec_path.as_deref().is_some_and(|path| !path.is_empty());
    let candidates = invoked_path::candidates(exec_path, first_argument, path);
    let chains: Vec<Chain> = candidates.iter().map(|p| chain(p)).collect();
    let ours = leading_here(&chains, given, ourselves);
    let directories = directories(path);
    let rule = Rule {
        is_wrapper: &|path| ourselves.behind(path),
        directories: &directories,
    };
    if let Some(program) = beside(&ours, &rule) {
        return Ok(Called::Link(program));
    }
    let named = ours.iter().find(|chain| !invoked_path::nameless(chain));
    match named {
        Some(chain) if invoked_path::first_name(chain) == Some(OsStr::new("cudawrap")) => {
            Ok(Called::OwnName)
        }
        // A link without a sibling, as in a directory of links: the next program of that
        // name in PATH behind the link's directory.
        Some(chain) => rule
            .in_path(chain)
            .map(|found| Called::Link(found.program))
            .ok_or_else(|| nowhere(chain)),
        None => replaced(&chains, first_argument).map(Called::Link),
    }
}

/// The program beside a link; else, where wrapping or undoing is in progress, the one that
/// has its own name already or still.
fn beside(links: &[&Chain], rule: &Rule<'_>) -> Option<PathBuf> {
    let found = links.iter().find_map(|link| rule.beside(link));
    let found = found.or_else(|| {
        links.iter().find_map(|link| {
            let alone = Rule {
                directories: &[],
                ..*rule
            };
            let mut there = invoked_path::unprefixed(link).filter(|path| identity(path).is_some());
            there.find_map(|path| alone.program(&path))
        })
    });
    found.map(|found| found.program)
}

/// The chains that lead to this program. `given`: the first is what the kernel was told to
/// execute, so it is what was started, whatever else has the name of `argv[0]` in PATH.
fn leading_here<'c>(chains: &'c [Chain], given: bool, ourselves: &Ourselves) -> Vec<&'c Chain> {
    let executed = chains
        .first()
        .filter(|chain| given && !invoked_path::nameless(chain));
    let mut ours: Vec<&Chain> = chains
        .iter()
        .filter(|chain| chain.end.is_some_and(|end| ourselves.is(end)))
        .collect();
    if ours.first().is_some_and(|first| Some(*first) == executed) {
        ours.truncate(1);
    }
    ours
}

fn nowhere(chain: &Chain) -> Failure {
    let shown = chain.hops.first().map(|hop| hop.display().to_string());
    let shown = shown.unwrap_or_default();
    let name = &chain.link_name().unwrap_or_default().to_string_lossy();
    StartCause::NothingBehind { shown, name }.into()
}

/// No path leads to us any more: the link was replaced while we started (undone,
/// upgraded). What is there now is the program.
fn replaced(chains: &[Chain], first_argument: Option<&OsStr>) -> Result<PathBuf, Failure> {
    let found = chains
        .iter()
        .find(|chain| {
            let name = invoked_path::first_name(chain);
            // AT_EXECFN of a `#!` file is the script; only its interpreter can have been us.
            let same_name =
                first_argument.is_some_and(|argument| Path::new(argument).file_name() == name);
            same_name
                && !invoked_path::nameless(chain)
                && chain
                    .hops
                    .last()
                    .is_some_and(|end| can_run(end) && !is_cudawrap(end))
        })
        .and_then(|chain| chain.hops.first().cloned());
    found.ok_or_else(|| StartCause::NoName.into())
}

/// The program that was typed behind our own name: a path as it is, a bare name by PATH,
/// as execvp(3) finds it.
pub fn typed(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    if name.is_empty() {
        // In a directory of PATH it would be the directory itself.
        let (shown, remedy) = ("''", PathRemedy::Unknown);
        return Err(StartCause::NotInPath { shown, remedy }.into());
    }
    let path: OsString = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    if let Ok(found) = which::which_in(name, Some(&path), ".") {
        return Ok(found);
    }
    let mut there = directories(Some(&path))
        .into_iter()
        .map(|dir| dir.join(name));
    let there = there.find(|path| path.exists());
    if let Some(path) = there {
        let path = path.display();
        return Err(StartCause::NotPermitted { path }.into());
    }
    let shown: &str = &name.to_string_lossy();
    let remedy = if can_run(Path::new(name)) {
        PathRemedy::Here { shown }
    } else if shown.ends_with(".py") && Path::new(name).is_file() {
        PathRemedy::Python { shown }
    } else if shown.contains(' ') {
        PathRemedy::Unquote { shown }
    } else {
        PathRemedy::Unknown
    };
    Err(StartCause::NotInPath { shown, remedy }.into())
}

#[cfg(test)]
#[path = "locate_program_properties.rs"]
mod properties;
