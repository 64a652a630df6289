//! Loading NVIDIA's library, and what its absence says: no driver, no GPU, none that this
//! process may open, or an installation that is not whole.

use std::path::Path;

use getgpu_linux::procfs::namespaces;
use getgpu_model::{Failure, NodeCause};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::causes::{InitRemedy, LoadRemedy, NvmlCause};
use super::fault::{self, Fault};
use super::{device_files, raw};

/// Loads and initialises the library.
pub(super) fn open(library: Option<&Path>) -> Result<Nvml, Failure> {
    let name = library.unwrap_or(Path::new("libnvidia-ml.so.1"));
    raw::keep_loaded(name);
    Nvml::builder()
        .lib_path(name.as_os_str())
        .init()
        .map_err(|error| cannot_open(name, &error))
}

fn cannot_open(library: &Path, error: &NvmlError) -> Failure {
    let init = Fault::from("Init", error);
    if let NvmlError::LibloadingError(cause) = error
        && lacks_memory(&cause.to_string())
    {
        return not_loaded(library, cause.to_string(), LoadRemedy::RaiseLimit);
    }
    let unloadable = matches!(
        error,
        NvmlError::LibloadingError(_) | NvmlError::FailedToLoadSymbol(_)
    );
    if let Some(cause) = nothing_usable(init.code, unloadable) {
        return cause.into();
    }
    if unloadable {
        return cannot_load(library, error);
    }
    let remedy = match init.code {
        fault::VERSION_MISMATCH if namespaces::in_container() => InitRemedy::RestartContainer,
        fault::VERSION_MISMATCH => InitRemedy::Reboot,
        _ => InitRemedy::TryDriver,
    };
    NvmlCause::CallFailed {
        fault: init,
        remedy,
    }
    .into()
}

/// What a node, or a container, lacks: a driver, or GPUs that this process may use.
fn nothing_usable(code: u32, unloadable: bool) -> Option<NodeCause> {
    match code {
        fault::DRIVER_NOT_LOADED => Some(NodeCause::NoDriverLoaded),
        fault::GPU_NOT_FOUND => Some(NodeCause::NoGpuHere),
        // Container images have empty and foreign files of this name: without a driver
        // they say nothing.
        _ if unloadable && !device_files::driver_loaded() => Some(NodeCause::NoDriverLoaded),
        // The driver was asked, and what it says is no container's doing.
        fault::VERSION_MISMATCH => None,
        // A container without GPUs on a node with GPUs: the driver's files in /proc are
        // the host's.
        _ if device_files::driver_loaded() && !device_files::exist() => Some(NodeCause::NoGpuHere),
        _ if device_files::all_closed() => Some(NodeCause::NoGpuOpens),
        _ => None,
    }
}

/// A driver is loaded, and the file is not its library.
fn cannot_load(library: &Path, error: &NvmlError) -> Failure {
    let cause = match error {
        NvmlError::LibloadingError(cause) => cause.to_string(),
        other => other.to_string(),
    };
    let remedy = match is_missing(library, &cause) {
        true => LoadRemedy::Install,
        false => LoadRemedy::InstallAgain,
    };
    not_loaded(library, cause, remedy)
}

fn not_loaded(file: &Path, why: String, remedy: LoadRemedy) -> Failure {
    let file = file.display();
    NvmlCause::NotLoaded { file, why, remedy }.into()
}

/// Whether the loader found the library and had no memory for it, which says nothing about
/// the node (dlerror(3) has nothing but its text).
fn lacks_memory(says: &str) -> bool {
    [
        "failed to map segment",
        "cannot allocate memory",
        "cannot create",
    ]
    .iter()
    .any(|text| says.contains(text))
}

/// Whether the loader says that this very library does not exist (dlerror(3) has nothing
/// but its text), not that it cannot be read or lacks another one.
fn is_missing(library: &Path, says: &str) -> bool {
    says.contains(&format!(
        "{}: cannot open shared object file: No such file",
        library.display()
    ))
}
