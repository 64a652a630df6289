//! Files of this installation: programs that can be run, beside the one that runs now.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// Whether this process may execute the file (access(2)).
pub fn can_run(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

/// The program of this name beside our own executable.
pub fn sibling(name: &str) -> Option<PathBuf> {
    let own = std::fs::read_link("/proc/self/exe").ok()?;
    Some(own.with_file_name(name)).filter(|path| can_run(path))
}
