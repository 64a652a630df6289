//! Which cudawrap the links lead to, and which program it would run for a path. Relative
//! entries of PATH are left out: what they mean depends on where the user happens to
//! stand.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use getgpu_linux::regular_file::Links;
use getgpu_linux::{
    Identity, Resolution, Rule, can_run, chain, directories, identity, is_cudawrap, sibling,
};
use getgpu_model::{Failure, reason};

use crate::causes::CreateCause;
use crate::executable::{Form, form};
use crate::names::WRAPPER;

/// The place of old: the links that lead there are served by whatever cudawrap lies
/// there.
const SITE: &str = "/usr/local/share/gpus";

/// The cudawrap that links are made to.
#[derive(Clone, Debug)]
pub struct Wrapper {
    /// The text of the link: an absolute path, not resolved, so that it survives an
    /// upgrade of cudawrap.
    pub text: OsString,
    /// Which file it is now.
    pub id: Identity,
}

/// The cudawrap that links can be made to: none that would not run programs as it should.
pub fn find(named: Option<&Path>) -> Result<Wrapper, Failure> {
    let found = locate(named)?;
    match fault(Path::new(&found.text)) {
        Some(fault) => Err(CreateCause::WrapperUnfit { fault }.into()),
        None => Ok(found),
    }
}

/// The cudawrap given by name, else the one beside our own executable, in PATH, or at the
/// place of old.
pub fn locate(named: Option<&Path>) -> Result<Wrapper, Failure> {
    if let Some(path) = named {
        return from_option(path);
    }
    let of_old = || Some(Path::new(SITE).join(WRAPPER)).filter(|path| can_run(path));
    let found = sibling(WRAPPER).or_else(|| tool(WRAPPER)).or_else(of_old);
    let wrapper = found.and_then(|path| {
        Some(Wrapper {
            id: identity(&path)?,
            text: path.into_os_string(),
        })
    });
    wrapper.ok_or_else(|| CreateCause::NoWrapper { site: SITE }.into())
}

fn from_option(named: &Path) -> Result<Wrapper, Failure> {
    let path = named.display();
    let absolute = std::path::absolute(named).map_err(|error| {
        let (path, why) = (named.display(), reason(&error));
        CreateCause::WrapperUnreachable { path, why }
    })?;
    let Some(id) = identity(&absolute) else {
        return Err(CreateCause::WrapperMissing { path }.into());
    };
    if !can_run(&absolute) {
        return Err(CreateCause::WrapperNotRun { path }.into());
    }
    if !absolute.ends_with(WRAPPER) {
        return Err(CreateCause::WrapperMisnamed { path }.into());
    }
    Ok(Wrapper {
        text: absolute.into_os_string(),
        id,
    })
}

/// What is wrong with the cudawrap that `path` leads to: cp(1), chmod(1) and chown(1) follow
/// a link, so that they change the cudawrap of the node instead of one program. None where
/// it cannot be looked at.
pub fn fault(path: &Path) -> Option<String> {
    let end = std::fs::canonicalize(path).ok()?;
    let meta = std::fs::metadata(&end).ok()?;
    let directory = std::fs::metadata(end.parent()?).ok()?;
    let what = if meta.mode() & 0o6000 != 0 {
        "is setuid or setgid".to_owned()
    } else if meta.mode() & 0o111 != 0o111 {
        "cannot be executed by everybody".to_owned()
    } else if meta.uid() != directory.uid() {
        let (owner, expected) = (meta.uid(), directory.uid());
        format!("belongs to user {owner}, and its directory to user {expected}")
    } else if meta.mode() & 0o002 != 0 {
        "can be written to by everybody".to_owned()
    } else if directory.mode() & 0o1002 == 0o002 {
        "is in a directory that everybody can write to".to_owned()
    } else if form(&end, Links::Refuse).ok()? != Form::Own(WRAPPER) {
        "is not cudawrap: another program was written over it".to_owned()
    } else {
        return None;
    };
    Some(format!("{} {what}", end.display()))
}

/// Whether executing `path` starts a cudawrap, `own` among them, or did before that was
/// removed.
pub fn is_wrapper(path: &Path, own: Option<Identity>) -> bool {
    is_cudawrap(path)
        || chain(path).hops.iter().any(|hop| hop.ends_with(WRAPPER))
        || (own.is_some() && identity(path) == own)
}

/// What `path` runs by what is beside links alone, if that is a program: whatever PATH a
/// user has, this must not be removed.
pub fn beside_links(path: &Path, own: Option<Identity>) -> Option<Resolution> {
    let rule = Rule {
        is_wrapper: &|path| is_wrapper(path, own),
        directories: &[],
    };
    rule.program(path).filter(|found| {
        std::fs::metadata(&found.program)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// What the link `path`, beside which there is no program, runs by our PATH.
pub fn in_path(path: &Path, own: Option<Identity>) -> Option<PathBuf> {
    by_path(own, |rule| rule.in_path(&chain(path)))
}

/// What `path` runs, by our PATH too.
pub fn program_of(path: &Path, own: Option<Identity>) -> Option<PathBuf> {
    by_path(own, |rule| rule.program(path))
}

fn by_path(
    own: Option<Identity>,
    find: impl FnOnce(&Rule<'_>) -> Option<Resolution>,
) -> Option<PathBuf> {
    let rule = Rule {
        is_wrapper: &|path| is_wrapper(path, own),
        directories: &directories(Some(&absolute_path())),
    };
    find(&rule).map(|found| found.program)
}

/// The program called `name` in PATH.
pub fn tool(name: &str) -> Option<PathBuf> {
    which::which_in_all(name, Some(absolute_path()), "/")
        .ok()?
        .next()
}

fn absolute_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(env::split_paths(&path).filter(|entry| entry.is_absolute())).unwrap_or_default()
}
