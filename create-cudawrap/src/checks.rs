//! What is not wrapped, with the reason and the remedy. Pure: decides on facts that
//! `facts` has gathered. `--force` overrides what is a matter of policy (package,
//! AppArmor, network file system), never identity or safety.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use getgpu_common::error::{Failure, Kind};
use getgpu_common::resolve_program::PREFIX;

use crate::executable::Form;
use crate::facts::{Facts, Keeper};
use crate::inspect::PathSnapshot;
use crate::names::{self, ADDED};

/// PATH_MAX of linux/limits.h, without the final NUL.
const LONGEST_PATH: usize = 4095;

/// Names that are never worked on, whatever lies there.
pub fn name(name: &OsStr) -> Result<(), Failure> {
    if names::is_own(name) {
        return Err(own(&name.to_string_lossy()));
    }
    match names::original(name) {
        Some(app) => Err(
            refused("is the name that a wrapped program has, not a path to wrap")
                .hint(format!("did you mean {}?", app.to_string_lossy())),
        ),
        None => Ok(()),
    }
}

/// A path that leaves no room for the names beside it. `longest`: of a name here.
pub fn length(path: &Path, longest: u64) -> Result<(), Failure> {
    // 255 is what every caller of readdir copes with; some file systems allow less, none
    // that matters more.
    let longest = usize::try_from(longest).unwrap_or(usize::MAX).min(255);
    let name = path.file_name().unwrap_or_default();
    if name.as_bytes().len() + ADDED > longest {
        let most = longest.saturating_sub(ADDED);
        return Err(refused(&format!("name too long: at most {most} bytes"))
            .hint("wrap a link to it that has a shorter name"));
    }
    if path.as_os_str().as_bytes().len() + PREFIX.len() > LONGEST_PATH {
        let most = LONGEST_PATH - PREFIX.len();
        return Err(refused(&format!("path too long: at most {most} bytes"))
            .hint("wrap a link to it that has a shorter path"));
    }
    Ok(())
}

/// A directory in which another user could swap what root has just looked at. With an
/// access control list the group's bits are its mask, so they cover it (acl(5)).
pub fn directory(keeper: Keeper) -> Result<(), Failure> {
    if !keeper.root || (keeper.uid == 0 && keeper.mode & 0o022 == 0) {
        return Ok(());
    }
    let hint = if keeper.uid == 0 {
        "make the directory writable for root only: chmod go-w".to_owned()
    } else {
        format!(
            "run this command as the directory's owner: setpriv --reuid {} --regid {} --clear-groups create-cudawrap ...",
            keeper.uid, keeper.gid
        )
    };
    Err(refused("is in a directory that users other than root can write to").hint(hint))
}

/// What speaks against wrapping a program that is not wrapped.
pub fn program(seen: &PathSnapshot, facts: &Facts, force: bool) -> Result<(), Failure> {
    if let Some(name) = &facts.own {
        return Err(own(name));
    }
    if !seen.app.runs {
        return Err(refused("is not executable").hint("chmod +x, if it is a program"));
    }
    match seen.form {
        Some(Form::Own(name)) => return Err(own(name)),
        Some(form) => {
            if let Some(fault) = form.fault() {
                let failure = refused(&format!("is {fault}"));
                return Err(match form {
                    Form::ScriptOfWrapped => failure
                        .hint("as CUDAWRAP_name it could execute itself for ever; use --link-dir"),
                    _ => failure,
                });
            }
        }
        None => {}
    }
    if force {
        return Ok(());
    }
    if let Some(profile) = &facts.apparmor {
        let profile = profile.display();
        return Err(refused(&format!(
            "is named in the AppArmor profile {profile}, which would not apply to it any more"
        ))
        .hint("use --link-dir; --force wraps it anyway, and the profile then has no effect"));
    }
    if let Some(system) = facts.network {
        let message = format!(
            "is on {system}, and cudawrap is not: nodes without cudawrap would lose the program"
        );
        return Err(refused(&message)
            .hint("copy cudawrap and getgpu there, and name that cudawrap with --wrapper"));
    }
    match &facts.package {
        Some(package) => Err(refused(&format!(
            "belongs to the package {package}, whose next upgrade would replace the link"
        ))
        .hint("use --link-dir, which leaves it alone; or --force")),
        None => Ok(()),
    }
}

/// Our own programs.
pub fn own(name: &str) -> Failure {
    refused(&format!("is {name} itself")).hint("wrap the programs that use a GPU")
}

pub fn refused(why: &str) -> Failure {
    Failure::new(Kind::Refused, why)
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
