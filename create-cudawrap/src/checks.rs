//! What is not wrapped, with the reason and the remedy. What cannot be found out speaks
//! against nothing. `--force` overrides what is a matter of policy (package,
//! AppArmor, network file system), never identity or safety.

use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use getgpu_linux::{Identity, PREFIX, identity, without_number};
use getgpu_model::{Failure, reason};

use crate::causes::{DirectoryRemedy, PathCause, UnfitRemedy};
use crate::directory::Directory;
use crate::executable::Form;
use crate::filesystem::network;
use crate::inspect::PathSnapshot;
use crate::names::{self, ADDED};
use crate::target::Target;
use crate::wrapper::Wrapper;
use crate::{apparmor, package};

/// PATH_MAX of linux/limits.h in bytes, without the final NUL.
const LONGEST_PATH: usize = 4095;

/// Names that are never worked on, whatever lies there.
pub fn name(name: &OsStr) -> Result<(), Failure> {
    if names::is_own(name) {
        let name = &name.to_string_lossy();
        return Err(PathCause::OwnProgram { name }.into());
    }
    let meant = |app| Path::new(app).display();
    let (wrapped, older) = (names::original(name), without_number(name));
    match (wrapped.map(meant), older.map(meant)) {
        (Some(meant), _) => Err(PathCause::NameOfWrapped { meant }.into()),
        (None, Some(meant)) => Err(PathCause::NameOfOlder { meant }.into()),
        (None, None) => Ok(()),
    }
}

/// A path that leaves no room for the names beside it. `longest`: of a name here.
pub fn length(path: &Path, longest: usize) -> Result<(), Failure> {
    // 255 is what every caller of readdir copes with; some file systems allow less, none
    // that matters more.
    let longest = longest.min(255);
    let name = path.file_name().unwrap_or_default();
    if name.as_bytes().len() + ADDED > longest {
        let most = longest.saturating_sub(ADDED);
        return Err(PathCause::NameTooLong { most }.into());
    }
    if path.as_os_str().as_bytes().len() + PREFIX.len() > LONGEST_PATH {
        let most = LONGEST_PATH - PREFIX.len();
        return Err(PathCause::PathTooLong { most }.into());
    }
    Ok(())
}

/// A directory in which another user could swap what root has just looked at. With an
/// access control list the group's bits are its mask, so they cover it (acl(5)).
pub fn directory(dir: &Directory) -> Result<(), Failure> {
    let stat = dir.own_stat().map_err(|error| {
        let why = reason(&error);
        PathCause::DirectoryUnknown { why }
    })?;
    let root = nix::unistd::geteuid().is_root();
    if !root || (stat.st_uid == 0 && stat.st_mode & 0o022 == 0) {
        return Ok(());
    }
    let remedy = match (stat.st_uid, stat.st_gid) {
        (0, _) => DirectoryRemedy::CloseIt,
        (uid, gid) => DirectoryRemedy::BeOwner { uid, gid },
    };
    Err(PathCause::DirectoryOpen { remedy }.into())
}

/// What speaks against wrapping a program that is not wrapped.
pub fn program(
    target: &Target,
    dir: &Directory,
    seen: &PathSnapshot,
    wrapper: &Wrapper,
    force: bool,
) -> Result<(), Failure> {
    not_own(target, wrapper)?;
    if !seen.app.runs {
        return Err(PathCause::NotExecutable.into());
    }
    form(seen.form)?;
    if force {
        return Ok(());
    }
    if let Some(profile) = apparmor::profile(&target.path()) {
        let profile = profile.display();
        return Err(PathCause::InProfile { profile }.into());
    }
    if let Some(system) = other_file_system(dir, wrapper.id) {
        return Err(PathCause::OnNetwork { system }.into());
    }
    match package::owner(&target.path())? {
        Some(package) => Err(PathCause::OfPackage { package }.into()),
        None => Ok(()),
    }
}

/// A file that is no program of the user's, or none at all.
fn form(form: Option<Form>) -> Result<(), Failure> {
    let remedy = match form {
        Some(Form::Own(name)) => return Err(PathCause::OwnProgram { name }.into()),
        Some(Form::ScriptOfWrapped) => UnfitRemedy::UseLinkDir,
        _ => UnfitRemedy::Unknown,
    };
    match form.and_then(Form::fault) {
        Some(what) => Err(PathCause::Unfit { what, remedy }.into()),
        None => Ok(()),
    }
}

/// Refuses one of our own programs.
pub fn not_own(target: &Target, wrapper: &Wrapper) -> Result<(), Failure> {
    match which_own(target, wrapper) {
        Some(name) => Err(PathCause::OwnProgram { name: &name }.into()),
        None => Ok(()),
    }
}

/// Which of our programs the target is or leads to, by name or by being the same file.
fn which_own(target: &Target, wrapper: &Wrapper) -> Option<String> {
    let path = target.path();
    let end = std::fs::canonicalize(&path).unwrap_or_default();
    let mut both = iter::once(&*target.name).chain(end.file_name());
    if let Some(name) = both.find(|name| names::is_own(name)) {
        return Some(name.to_string_lossy().into_owned());
    }
    let id = identity(&path)?;
    if id == wrapper.id {
        return Some(names::WRAPPER.to_owned());
    }
    let exe = std::env::current_exe().ok()?;
    let mut beside = names::OWN.iter();
    beside
        .find(|name| identity(&exe.with_file_name(name)) == Some(id))
        .map(|name| (*name).to_owned())
}

/// What the user should know although it is wrapped.
pub fn warnings(target: &Target, dir: &Directory) -> Vec<&'static str> {
    let mut all = Vec::new();
    if dir.stat(&target.name).is_ok_and(|stat| stat.st_nlink > 1) {
        all.push("the file has other names (hard links); started by one of those, it runs without cudawrap");
    }
    let behind = dir.stat_behind(&target.name);
    if behind.is_ok_and(|stat| stat.st_mode & 0o6000 != 0) {
        all.push("is setuid or setgid: the CUDA library may ignore CUDA_VISIBLE_DEVICES in such a program");
    } else if rustix::fs::getxattr_query(target.path(), c"security.capability").is_ok() {
        all.push("has file capabilities: the CUDA library may ignore CUDA_VISIBLE_DEVICES in such a program");
    }
    all
}

/// The network file system that the directory is on, when cudawrap is on another one.
fn other_file_system(dir: &Directory, wrapper: Identity) -> Option<&'static str> {
    let magic = dir.filesystem().ok()?.filesystem_type().0 as u64;
    let here = dir.own_stat().ok()?;
    network(magic).filter(|_| here.st_dev != wrapper.0)
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
