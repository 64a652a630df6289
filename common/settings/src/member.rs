//! Whether a table of limits is for the user of this process, or for another one.

use std::ffi::CString;

use nix::unistd::{Gid, Group, User, getegid, geteuid, getgrouplist, getgroups};

use crate::file::Scope;

/// Whether this process has the rights of a group, by its name (getgrnam(3)).
pub(crate) fn is_in_group(name: &str) -> bool {
    let Ok(Some(group)) = Group::from_name(name) else {
        return false;
    };
    getegid() == group.gid || getgroups().is_ok_and(|groups| groups.contains(&group.gid))
}

/// Whether the effective user has this name, or this number.
pub(crate) fn is_user(name: &str) -> bool {
    is_named(geteuid().as_raw(), name)
}

/// Whether a table is for the user `uid`, who need not be the one of this process.
pub(crate) fn is_for(uid: u32, scope: Scope, name: &str) -> bool {
    match scope {
        Scope::Group => Group::from_name(name)
            .is_ok_and(|group| group.is_some_and(|group| groups_of(uid).contains(&group.gid))),
        Scope::User => is_named(uid, name),
        Scope::Program => false,
    }
}

fn is_named(uid: u32, name: &str) -> bool {
    if name == uid.to_string() {
        return true;
    }
    // A limit counts, however slow the directory is.
    let user = User::from_uid(uid.into());
    user.is_ok_and(|user| user.is_some_and(|user| user.name == name))
}

/// The groups of a user (getgrouplist(3)); none where the database does not know them.
fn groups_of(uid: u32) -> Vec<Gid> {
    let Ok(Some(user)) = User::from_uid(uid.into()) else {
        return Vec::new();
    };
    let name = CString::new(user.name).unwrap_or_default();
    getgrouplist(&name, user.gid).unwrap_or_default()
}

/// Whether the users' database has what a table is for; so it may where it cannot be asked.
pub(crate) fn exists(scope: Scope, name: &str) -> bool {
    match scope {
        Scope::Group => !matches!(Group::from_name(name), Ok(None)),
        Scope::User => {
            let is_number = name.parse::<u32>().is_ok();
            is_number || !matches!(User::from_name(name), Ok(None))
        }
        Scope::Program => true,
    }
}
