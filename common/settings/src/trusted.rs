//! Whether a file of the system may be believed: it and its directory are root's and no
//! other user can write them, since a `library` that it names runs in all users'
//! processes. With GETGPU_CONFIG the caller's own files will do.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use getgpu_linux::{LockOrigin, trust};
use getgpu_model::Failure;

use super::causes::{SettingsCause, TrustRemedy};

/// Checks a file that is about to be read, and `what` it is to people. One that is not
/// there, or cannot be looked at, is left to the reader.
pub(crate) fn check(path: &Path, what: &str, caller: bool) -> Result<(), Failure> {
    let (origin, whose, remedy) = if caller {
        let whose = "which is neither root nor you";
        (LockOrigin::Environment, whose, TrustRemedy::Caller)
    } else {
        (LockOrigin::Host, "not to root", TrustRemedy::Host)
    };
    let wrong = wrong(path, &|uid| trust::owner(origin, uid), whose);
    refused(what, path, wrong, remedy)
}

/// Checks the settings of a prefix, which are root's or its owner's: a user of its
/// programs trusts both already.
pub(crate) fn check_prefix(path: &Path) -> Result<(), Failure> {
    let prefix = path.ancestors().nth(3).unwrap_or(path);
    let owner = fs::metadata(prefix).ok().map(|meta| meta.uid());
    let wrong = wrong(
        path,
        &|uid| Some(uid) == owner || trust::owner(LockOrigin::Host, uid),
        "which is neither root nor the prefix's owner",
    );
    refused("", path, wrong, TrustRemedy::Prefix)
}

/// The failure of a file with which something is `wrong`.
fn refused(
    what: &str,
    path: &Path,
    wrong: Option<String>,
    remedy: TrustRemedy,
) -> Result<(), Failure> {
    let Some(why) = wrong else { return Ok(()) };
    let path = path.display();
    Err(SettingsCause::NotTrusted {
        what,
        path,
        why,
        remedy,
    }
    .into())
}

fn writable(name: &Path, meta: &Metadata) -> Option<String> {
    (meta.permissions().mode() & 0o022 != 0)
        .then(|| format!("others can write to {}", name.display()))
}

/// What is wrong with a file, its directory, or what it is a link to. `whose` says of an
/// owner who is not trusted whose it is not.
fn wrong(path: &Path, trusted: &dyn Fn(u32) -> bool, whose: &str) -> Option<String> {
    let (link, target) = (
        fs::symlink_metadata(path).ok()?,
        fs::canonicalize(path).ok()?,
    );
    let file = fs::metadata(&target).ok()?;
    let owner = |name: &Path, meta: &Metadata| {
        (!trusted(meta.uid()))
            .then(|| format!("{} belongs to uid {}, {whose}", name.display(), meta.uid()))
    };
    // What is written to /dev/null is never read from it.
    let content = writable(&target, &file).filter(|_| file.is_file());
    let directory = |path: &Path| {
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let meta = fs::metadata(parent).ok()?;
        // In a sticky directory no user can move or replace what belongs to another.
        let sticky = meta.permissions().mode() & 0o1000 != 0;
        owner(parent, &meta).or_else(|| writable(parent, &meta).filter(|_| !sticky))
    };
    owner(path, &link)
        .or_else(|| owner(&target, &file))
        .or(content)
        .or_else(|| directory(path))
        .or_else(|| directory(&target))
}
