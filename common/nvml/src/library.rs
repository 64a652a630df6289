//! Loading NVIDIA's library, and what its absence says: no driver, no GPU, none that this
//! process may open, or an installation that is not whole.

use std::path::Path;

use getgpu_linux::procfs::namespaces;
use getgpu_model::{Failure, Kind};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

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
    let code = Fault::from("Init", error).code;
    if let NvmlError::LibloadingError(cause) = error
        && lacks_memory(&cause.to_string())
    {
        let text = format!("cannot load {}: {cause}", library.display());
        return Failure::new(Kind::Nvml, text).hint("ulimit -v limits this process");
    }
    let unloadable = matches!(
        error,
        NvmlError::LibloadingError(_) | NvmlError::FailedToLoadSymbol(_)
    );
    if let Some(failure) = nothing_usable(code, unloadable) {
        return failure;
    }
    if unloadable {
        return cannot_load(library, error);
    }
    let hint = match code {
        fault::VERSION_MISMATCH if namespaces::in_container() => {
            "this container was started before the node's driver was updated: start it again"
        }
        fault::VERSION_MISMATCH => {
            "the driver was updated while in use: the node needs a reboot or a reload of the nvidia module"
        }
        _ => "does `nvidia-smi -L` work on this node?",
    };
    Failure::new(Kind::Nvml, format!("NVML {}", Fault::from("Init", error))).hint(hint)
}

/// The failure of a node, or a container, without a driver or without GPUs that this
/// process may use.
fn nothing_usable(code: u32, unloadable: bool) -> Option<Failure> {
    match code {
        fault::DRIVER_NOT_LOADED => Some(no_driver()),
        fault::GPU_NOT_FOUND => Some(no_gpu()),
        // Container images have empty and foreign files of this name: without a driver
        // they say nothing.
        _ if unloadable && !device_files::driver_loaded() => Some(no_driver()),
        // The driver was asked, and what it says is no container's doing.
        fault::VERSION_MISMATCH => None,
        // A container without GPUs on a node with GPUs: the driver's files in /proc are
        // the host's.
        _ if device_files::driver_loaded() && !device_files::exist() => Some(no_gpu()),
        _ if device_files::all_closed() => Some(Failure::new(
            Kind::NoUsableGpu,
            "no GPU that this process may open",
        )),
        _ => None,
    }
}

fn no_driver() -> Failure {
    Failure::new(Kind::NoDriver, "no NVIDIA driver on this node")
}

fn no_gpu() -> Failure {
    Failure::new(Kind::NoUsableGpu, "no NVIDIA GPU on this node")
}

/// A driver is loaded, and the file is not its library.
fn cannot_load(library: &Path, error: &NvmlError) -> Failure {
    let cause = match error {
        NvmlError::LibloadingError(cause) => cause.to_string(),
        other => other.to_string(),
    };
    let hint = if is_missing(library, &cause) {
        "the NVIDIA driver is loaded but its library is not found: install libnvidia-ml1 or set `library`"
    } else {
        "the NVIDIA driver is loaded but this file is not its library (empty, damaged or for another machine): \
         install libnvidia-ml1 again or set `library`"
    };
    let text = format!("cannot load {}: {cause}", library.display());
    Failure::new(Kind::Nvml, text).hint(hint)
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
