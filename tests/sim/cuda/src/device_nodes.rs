//! What of the node a CUDA program may open. Where /dev has NVIDIA's device nodes, a GPU or
//! MIG device whose nodes are closed to the program, by modes or by a device cgroup, does not
//! exist for CUDA, and the others are counted without it. Without any nodes all are open.

use std::path::Path;

use nix::unistd::{AccessFlags, access};
use sim_node::{MigDevice, Node};

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
        gpu.devices
            .retain(|device| capabilities(index, device).iter().all(|path| is_open(path)));
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

fn is_open(path: &str) -> bool {
    access(path, AccessFlags::R_OK | AccessFlags::W_OK).is_ok()
}
