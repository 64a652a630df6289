//! The metrics of `--list --format prometheus` in a file for node_exporter's textfile
//! collector: written beside it and renamed, so that no reader gets half a file.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::ident::Uuid;
use getgpu_common::lock::LockFile;
use getgpu_common::request::Request;
use getgpu_common::settings::{Environment, Settings};

use crate::invocation::node;
use crate::list;

/// Writes the file; `empty_since`: since when a device that is held is unused, in Unix
/// seconds.
pub fn write(
    environment: &Environment,
    settings: &Settings,
    lock_file: &LockFile,
    path: &Path,
    empty_since: &dyn Fn(&Uuid) -> Option<u64>,
) -> Result<(), Failure> {
    let request = Request::listed(settings, environment, true)?;
    let mut node = node(settings);
    let text = list::metrics(&mut node, request, lock_file, empty_since)?;
    let new = path.with_extension("prom.new");
    let written = std::fs::write(&new, text)
        .and_then(|()| std::fs::set_permissions(&new, PermissionsExt::from_mode(0o644)))
        .and_then(|()| std::fs::rename(&new, path));
    written.map_err(|error| {
        let text = format!("--monitor: {}: {}", path.display(), reason(&error));
        Failure::new(Kind::Usage, text)
    })
}
