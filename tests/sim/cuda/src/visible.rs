//! Which device a CUDA program gets: CUDA_VISIBLE_DEVICES read by the rules of the CUDA
//! driver. Drivers before 570 give exactly one MIG device, and newer ones put it first,
//! so the first is what counts here.

use sim_node::{Gpu, Node};
use std::collections::HashSet;

/// How CUDA counts the GPUs of a node (CUDA_DEVICE_ORDER).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The default: the newest first stands for the fastest.
    FastestFirst,
    /// By PCI address, as NVML does.
    PciBusId,
}

impl Order {
    /// As the variable says.
    pub fn of_process() -> Self {
        match std::env::var("CUDA_DEVICE_ORDER").as_deref() {
            Ok("PCI_BUS_ID") => Self::PciBusId,
            _ => Self::FastestFirst,
        }
    }
}

/// The UUID of the first device that the variable leaves visible; `None`: no device.
pub fn first_device(node: &Node, variable: Option<&str>, order: Order) -> Option<String> {
    let mut node = node.clone();
    if order == Order::FastestFirst {
        node.gpus.sort_by_key(|gpu| std::cmp::Reverse(gpu.cuda));
    }
    let node = &node;
    let Some(list) = variable else {
        // The first MIG device if there is one anywhere, else the first GPU.
        let mig = node.gpus.iter().filter(|gpu| gpu.in_mig_mode());
        return mig.chain(&node.gpus).find_map(usable);
    };
    let mut seen = HashSet::new();
    for entry in list.split(',') {
        // The list ends at the first entry that names nothing.
        let Some(device) = named(node, entry.trim()) else {
            break;
        };
        if !seen.insert(device) {
            return None;
        }
    }
    named(node, list.split(',').next()?.trim())
}

fn named(node: &Node, entry: &str) -> Option<String> {
    // Of a number the leading digits count, behind a sign or none.
    let number = entry.strip_prefix('+').unwrap_or(entry);
    let end = number.find(|c: char| !c.is_ascii_digit());
    let digits = &number[..end.unwrap_or(number.len())];
    if !digits.is_empty() {
        return usable(node.gpus.get(digits.parse::<usize>().ok()?)?);
    }
    if entry.starts_with("GPU-") {
        let mut hits = node.gpus.iter().filter(|gpu| gpu.uuid.starts_with(entry));
        let gpu = hits.next()?;
        return hits.next().is_none().then(|| usable(gpu)).flatten();
    }
    let hit = node.mig_devices().find(|(gpu, device)| {
        device.uuid == entry || format!("MIG-{}/{}/{}", gpu.uuid, device.gi, device.ci) == entry
    });
    hit.map(|(_, device)| device.uuid.clone())
}

/// The GPU itself, or its first MIG device.
fn usable(gpu: &Gpu) -> Option<String> {
    if !gpu.in_mig_mode() {
        return Some(gpu.uuid.clone());
    }
    gpu.devices.first().map(|device| device.uuid.clone())
}
