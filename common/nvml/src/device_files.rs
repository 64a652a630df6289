//! Device nodes: may this process open a GPU, or a MIG device's two capability nodes?
//! Asked with faccessat(2), which obeys modes and the device cgroup and opens nothing.
//! Where no node exists at all (WSL, simulation), everything counts as usable.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

/// The minor number in /dev/nvidia-caps of the first GPU instance (nvidia-modprobe's
/// mig-minors).
const FIRST_INSTANCE: u32 = 3;
/// How many minor numbers a GPU has.
const PER_GPU: u32 = 135;
/// How many of them a GPU instance has.
const PER_INSTANCE: u32 = 9;

/// Whether the kernel has the NVIDIA driver. In a container that is the host's kernel.
pub(super) fn driver_loaded() -> bool {
    Path::new("/proc/driver/nvidia/version").exists()
}

/// Whether there are GPU nodes at all; only then are they asked about.
pub(super) fn exist() -> bool {
    gpu_nodes().next().is_some()
}

/// Whether there are GPU nodes and none of them may be opened.
pub(super) fn all_closed() -> bool {
    exist() && !gpu_nodes().any(|node| open_allowed(&node))
}

/// Whether /dev/nvidiaN may be opened.
pub(super) fn gpu_usable(minor: u32) -> bool {
    open_allowed(Path::new(&format!("/dev/nvidia{minor}")))
}

/// Whether the nodes of a GPU instance and a compute instance may be opened. `minor` is
/// the GPU's.
pub(super) fn instance_usable(minor: u32, gi: u32, ci: u32) -> bool {
    if !Path::new("/dev/nvidia-caps").is_dir() {
        return true;
    }
    capabilities(minor, gi, ci).iter().all(|capability| {
        let text = std::fs::read_to_string(&capability.file).unwrap_or_default();
        let number = minor_in(&text).unwrap_or(capability.minor);
        let node = PathBuf::from(format!("/dev/nvidia-caps/nvidia-cap{number}"));
        // Nodes are made on demand by nvidia-modprobe: one that is not there yet is not
        // denied.
        !node.exists() || allowed(&node, AccessFlags::R_OK)
    })
}

/// A capability of the driver: its file in /proc, which names the minor number of its node, and
/// the number that it has where that file cannot be read.
#[derive(Debug, PartialEq)]
struct Capability {
    file: String,
    minor: u32,
}

/// What a program needs for a MIG device: the capabilities of its GPU instance and of its compute
/// instance.
fn capabilities(gpu: u32, gi: u32, ci: u32) -> [Capability; 2] {
    let minor = FIRST_INSTANCE + gpu * PER_GPU + gi * PER_INSTANCE;
    let base = format!("/proc/driver/nvidia/capabilities/gpu{gpu}/mig/gi{gi}");
    [
        Capability {
            file: format!("{base}/access"),
            minor,
        },
        Capability {
            file: format!("{base}/ci{ci}/access"),
            minor: minor + 1 + ci,
        },
    ]
}

/// The number in the text of a capability's file.
fn minor_in(text: &str) -> Option<u32> {
    text.lines()
        .find_map(|line| line.strip_prefix("DeviceFileMinor:"))?
        .trim()
        .parse()
        .ok()
}

fn gpu_nodes() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    // A path is made for GPUs only, since /dev has hundreds of other entries.
    let gpus = entries.filter(|entry| is_gpu_node(&entry.file_name()));
    gpus.map(|entry| entry.path())
}

/// Whether a name in /dev is that of a GPU: others are of the driver itself (nvidiactl) or of what
/// else it serves (nvidia-uvm).
fn is_gpu_node(name: &OsStr) -> bool {
    let number = name.as_bytes().strip_prefix(b"nvidia");
    number.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

fn open_allowed(node: &Path) -> bool {
    allowed(node, AccessFlags::R_OK | AccessFlags::W_OK)
}

fn allowed(node: &Path, access: AccessFlags) -> bool {
    faccessat(AT_FDCWD, node, access, AtFlags::AT_EACCESS).is_ok()
}

#[cfg(test)]
#[path = "device_files_tests.rs"]
mod tests;
