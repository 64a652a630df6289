//! Whether a table of limits is for the user of this process.

use nix::unistd::{Group, User, getegid, geteuid, getgroups};

use getgpu_linux::procfs;

use crate::file::Scope;

/// Whether this process has the rights of a group, by its name (getgrnam(3)).
pub(crate) fn is_in_group(name: &str) -> bool {
    let Ok(Some(group)) = Group::from_name(name) else {
        return false;
    };
    getegid() == group.gid || getgroups().is_ok_and(|groups| groups.contains(&group.gid))
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

/// Whether the effective user has this name, or this number.
pub(crate) fn is_user(name: &str) -> bool {
    let uid = geteuid().as_raw();
    name == uid.to_string() || name == procfs::user_name(uid)
}
