//! Device nodes: may this process open a GPU, or a MIG device's two capability nodes?
//! Asked with faccessat(2), which obeys modes and the device cgroup and opens nothing.
//! Where no node exists at all (WSL, simulation), everything counts as usable.

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
    let mut any = false;
    for node in gpu_nodes() {
        if open_allowed(&node) {
            return false;
        }
        any = true;
    }
    any
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
    let gi_minor = FIRST_INSTANCE + minor * PER_GPU + gi * PER_INSTANCE;
    let base = format!("/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{gi}");
    [
        (format!("{base}/access"), gi_minor),
        (format!("{base}/ci{ci}/access"), gi_minor + 1 + ci),
    ]
    .iter()
    .all(|(told, computed)| {
        let number = told_minor(told).unwrap_or(*computed);
        let node = PathBuf::from(format!("/dev/nvidia-caps/nvidia-cap{number}"));
        // Nodes are made on demand by nvidia-modprobe: one that is not there yet is not
        // denied.
        !node.exists() || readable(&node)
    })
}

/// The DeviceFileMinor that the driver tells.
fn told_minor(path: &str) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("DeviceFileMinor:"))?
        .trim()
        .parse()
        .ok()
}

fn gpu_nodes() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix("nvidia"));
        name.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn open_allowed(node: &Path) -> bool {
    allowed(node, AccessFlags::R_OK | AccessFlags::W_OK)
}

fn readable(node: &Path) -> bool {
    allowed(node, AccessFlags::R_OK)
}

fn allowed(node: &Path, access: AccessFlags) -> bool {
    faccessat(AT_FDCWD, node, access, AtFlags::AT_EACCESS).is_ok()
}
