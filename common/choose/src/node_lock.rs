//! Finding the lock for one call, and saying what it means where it is not the host's.
//! Without a lock place nothing is handed out.

use std::path::Path;

use getgpu_linux::{LockOrigin, procfs::namespaces};
use getgpu_lock::{HOST_LOCK, LockFile};
use getgpu_model::{Diag, Failure};
use getgpu_settings::{Environment, Settings, Unshared};

use crate::causes::ChooseCause;

/// Finds the lock. If it is not the host's, a line says what that means; without `diag` none does, since
/// the user of a wrapped program may not know of any lock.
///
/// # Errors
///
/// The lock file cannot be used, or the site wants a failure where it is not the host's.
pub fn find_lock_file(
    settings: &Settings,
    environment: &Environment,
    diag: Option<&Diag>,
) -> Result<LockFile, Failure> {
    let lock_file = LockFile::find(environment.lock.clone(), settings.lock.clone())?;
    let diag = diag.filter(|_| settings.unshared != Unshared::Quiet);
    let private = lock_file.origin == LockOrigin::Private;
    // In a container a private lock is the container's: what the site says of locks that
    // are not the host's holds for it too.
    if private && namespaces::host_pids() {
        if let Some(diag) = diag {
            diag.warn(&format!(
                "no /run/getgpu on this node: {} excludes only your own programs",
                lock_file.path.display()
            ));
        }
        return Ok(lock_file);
    }
    if settings.unshared == Unshared::Quiet || getgpu_lock::host_sharing::with_host(&lock_file) {
        return Ok(lock_file);
    }
    let missing = Path::new(HOST_LOCK);
    let path = if private { missing } else { &lock_file.path };
    let directory = path.parent().unwrap_or(path).display();
    let failure = Failure::from(ChooseCause::LockNotShared { directory });
    if settings.unshared == Unshared::Fail {
        return Err(failure);
    }
    if let Some(diag) = diag {
        diag.warn(&failure.message);
        failure.hint.iter().for_each(|hint| diag.hint(hint));
    }
    Ok(lock_file)
}
