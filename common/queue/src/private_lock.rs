//! A lock in a directory of its own, for tests.

use std::os::unix::fs::PermissionsExt;

use getgpu_lock::LockFile;

/// The lock, and the directory, which is removed with the value.
pub(super) fn private_lock() -> (tempfile::TempDir, LockFile) {
    let private = std::fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().permissions(private).tempdir();
    let directory = directory.unwrap();
    let path = directory.path().join("lock");
    (directory, LockFile::find(Some(path), None).unwrap())
}
