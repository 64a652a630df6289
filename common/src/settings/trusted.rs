//! Whether a file of the system may be believed: it and its directory are root's and nobody else can write them, since a `library` that it names
//! runs in everybody's processes. With GETGPU_CONFIG the caller's own files will do.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::error::{Failure, Kind};
use crate::lock::{Origin, trust};

/// Checks a file that is about to be read, and `what` it is to people. One that is not there, or cannot be looked at, is left to the reader.
pub fn check(path: &Path, what: &str, caller: bool) -> Result<(), Failure> {
    let origin = if caller { Origin::Environment } else { Origin::Host };
    match wrong(path, origin) {
        None => Ok(()),
        Some(why) => Err(Failure::new(Kind::Usage, format!("{what}{}: not used: {why}", path.display()))
            .hint("as root: chown root and chmod go-w, for the file and its directory")),
    }
}

/// What is wrong with a file, its directory, or what it is a link to.
fn wrong(path: &Path, origin: Origin) -> Option<String> {
    let (link, target) = (fs::symlink_metadata(path).ok()?, fs::canonicalize(path).ok()?);
    let file = fs::metadata(&target).ok()?;
    let owner = |name: &Path, meta: &Metadata| {
        let text = || format!("{} belongs to uid {}, which is neither root nor you", name.display(), meta.uid());
        let root = || format!("{} belongs to uid {}, not to root", name.display(), meta.uid());
        (!trust::owner(origin, meta.uid())).then(|| if origin == Origin::Host { root() } else { text() })
    };
    let writable = |name: &Path, meta: &Metadata| {
        (meta.permissions().mode() & 0o022 != 0).then(|| format!("others can write to {}", name.display()))
    };
    // What is written to /dev/null is never read from it.
    let content = if file.is_file() { writable(&target, &file) } else { None };
    let directory = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let meta = fs::metadata(parent).ok()?;
        // Nobody can move or replace what belongs to somebody else in a sticky directory.
        let sticky = meta.permissions().mode() & 0o1000 != 0;
        owner(parent, &meta).or_else(|| if sticky { None } else { writable(parent, &meta) })
    };
    owner(path, &link)
        .or_else(|| owner(&target, &file))
        .or(content)
        .or_else(|| directory(path))
        .or_else(|| directory(&target))
}
