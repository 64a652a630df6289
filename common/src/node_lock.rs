//! Finding the lock for one call, and saying what it means where it is not the host's.
//! Without a lock place nothing is handed out.

use crate::error::{Failure, Kind};
use crate::lock::{LockFile, LockOrigin};
use crate::settings::{Environment, Settings, Unshared};

/// Finds the lock and says, where it is not the host's, what that means. `quiet`: a
/// wrapped program says nothing.
pub fn find_lock_file(
    settings: &Settings,
    environment: &Environment,
    diag: &crate::diag::Diag,
    quiet: bool,
) -> Result<LockFile, Failure> {
    let lock_file = LockFile::find(environment.lock.clone(), settings.lock.clone())?;
    if lock_file.origin == LockOrigin::Private {
        if !quiet && settings.unshared != Unshared::Quiet {
            diag.warn(&format!(
                "no /run/getgpu on this node: {} excludes only your own programs",
                lock_file.path.display()
            ));
        }
        return Ok(lock_file);
    }
    if settings.unshared == Unshared::Quiet || crate::lock::host_sharing::with_host(&lock_file) {
        return Ok(lock_file);
    }
    let directory = lock_file
        .path
        .parent()
        .unwrap_or(&lock_file.path)
        .display()
        .to_string();
    let text =
        format!("{directory}: not shared with the host: devices given elsewhere are not excluded");
    let hint = format!("mount {directory}");
    if settings.unshared == Unshared::Fail {
        return Err(Failure::new(Kind::LockPlace, text).hint(hint));
    }
    if !quiet {
        diag.warn(&text);
        diag.hint(&hint);
    }
    Ok(lock_file)
}
