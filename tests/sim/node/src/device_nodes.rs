//! What of the node a process may open. Where /dev has NVIDIA's device nodes, a GPU or MIG device
//! whose nodes are closed to the process, by modes or by a device cgroup, does not exist for CUDA,
//! nor for NVML where that lists only what is open, and the others are counted without it. Without
//! any nodes all are open.

use std::path::Path;

use crate::{MigDevice, Node};
use nix::unistd::{AccessFlags, access};

/// Leaves out what may not be opened.
pub fn retain_open(node: &mut Node) {
    if !(0..node.gpus.len()).any(|index| Path::new(&gpu_node(index)).exists()) {
        return;
    }
    let caps = Path::new("/dev/nvidia-caps").is_dir();
    node.gpus
        .retain(|gpu| is_open(&gpu_node(gpu.index as usize)));
    for gpu in node.gpus.iter_mut().filter(|_| caps) {
        let index = gpu.index;
        gpu.devices.retain(|device| {
            capabilities(index, device)
                .iter()
                .all(|path| is_readable(path))
        });
        for (index, device) in (0..).zip(&mut gpu.devices) {
            device.index = index;
        }
    }
}

fn gpu_node(index: usize) -> String {
    format!("/dev/nvidia{index}")
}

/// The nodes of the GPU instance and the compute instance, by nvidia-modprobe's numbers.
fn capabilities(gpu: u32, device: &MigDevice) -> [String; 2] {
    let instance = 3 + gpu * 135 + device.gi * 9;
    [instance, instance + 1 + device.ci].map(|minor| format!("/dev/nvidia-caps/nvidia-cap{minor}"))
}

fn is_readable(path: &str) -> bool {
    access(path, AccessFlags::R_OK).is_ok()
}

fn is_open(path: &str) -> bool {
    access(path, AccessFlags::R_OK | AccessFlags::W_OK).is_ok()
}
