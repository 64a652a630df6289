//! Who may own the lock and its directory: the rules that both making and opening the
//! lock check first. They are decided from an owner and a mode that were read already, so
//! that nothing is made or opened where they fail.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::{AccessFlags, eaccess, geteuid};

use crate::procfs::namespaces;

/// Where a lock path came from; decides who may own it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOrigin {
    /// The host's lock, or the one that the system settings name: root's.
    Host,
    /// GETGPU_LOCK: root's or the caller's.
    Environment,
    /// No lock of the host exists: the caller's own.
    Private,
}

/// Whether `uid` may own a lock of this origin, or its directory.
pub fn owner(origin: LockOrigin, uid: u32) -> bool {
    let root = uid == 0 || (!namespaces::host_root_mapped() && uid == namespaces::overflow_uid());
    let own = uid == geteuid().as_raw();
    match origin {
        LockOrigin::Host => root,
        LockOrigin::Environment => root || own,
        LockOrigin::Private => own,
    }
}

/// Why a lock in the directory at `path` cannot be trusted.
///
/// # Errors
///
/// It is no directory, belongs to another user, or others can write to it.
pub fn directory(origin: LockOrigin, path: &Path, meta: &Metadata) -> Result<(), String> {
    let name = path.display();
    if !meta.is_dir() {
        return Err(format!("{name} is not a directory"));
    }
    if !owner(origin, meta.uid()) {
        return Err(format!(
            "{name} belongs to uid {}, which is neither root nor you",
            meta.uid()
        ));
    }
    if meta.permissions().mode() & 0o022 != 0 {
        return Err(format!("others can write to {name}"));
    }
    // The overflow uid stands for root only where we could not have made the directory
    // ourselves.
    let is_mapped = meta.uid() == 0 || meta.uid() == geteuid().as_raw();
    if !is_mapped && eaccess(path, AccessFlags::W_OK).is_ok() {
        return Err(format!(
            "{name} is owned by a user id that is not mapped here, and is writable"
        ));
    }
    Ok(())
}
