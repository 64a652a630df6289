//! What `--check` says of the health of GPUs: what keeps CUDA from starting there or will, how
//! many programs each device is for, and whether the driver stays attached to idle GPUs.

use std::collections::BTreeMap;

use getgpu_ask::Node;
use getgpu_model::{
    Ailment, ComputeMode, Detail, Device, Failure, Health, Inventory, quantity::counted,
};

use super::findings::Findings;

/// What NVML says of the health of a node.
pub struct NodeHealth {
    devices: Vec<(Device, Health)>,
    /// The GPUs whose persistence mode is off.
    detached: Vec<u32>,
}

impl NodeHealth {
    /// Asks about every device that this process may open, and every GPU.
    ///
    /// # Errors
    ///
    /// The session failed.
    pub fn ask(node: &mut Node<'_>, inventory: &Inventory) -> Result<Self, Failure> {
        let usable = inventory.devices.iter().filter(|device| device.usable);
        let usable: Vec<&Device> = usable.collect();
        // With the lists of processes, in which a call may say that the GPU is lost.
        let usages = node.nvml()?.usages(&usable, Detail::Full)?;
        let health = usages.into_iter().map(|usage| usage.health);
        let devices = usable.into_iter().cloned().zip(health).collect();
        let mut detached = Vec::new();
        for gpu in &inventory.gpus {
            if inventory.silent_gpu(gpu.index).is_none()
                && node.nvml()?.persistence(gpu.index)? == Some(false)
            {
                detached.push(gpu.index);
            }
        }
        Ok(Self { devices, detached })
    }

    /// Tells it.
    pub fn report(&self, findings: &mut Findings) {
        self.report_ailments(findings, |ailment| ailment != Ailment::ExclusiveProcess);
        self.report_modes(findings);
        if !self.detached.is_empty() {
            let gpus: Vec<String> = self.detached.iter().map(ToString::to_string).collect();
            let text = format!(
                "persistence mode is off on GPU {}: the driver attaches a GPU anew for each call, which takes seconds",
                gpus.join(", ")
            );
            let remedy = "systemctl enable --now nvidia-persistenced (or, until the next reboot: nvidia-smi -pm 1)";
            findings.wrong("persistence", &text, remedy);
        }
    }

    /// A line for each thing that is wrong with each GPU, for which `told_of`. A mode that is for one
    /// program was set by an administrator, and is no problem.
    pub fn report_ailments(&self, findings: &mut Findings, told_of: impl Fn(Ailment) -> bool) {
        let mut told: Vec<(u32, Ailment)> = Vec::new();
        for (device, health) in &self.devices {
            for ailment in &health.ailments {
                if !told_of(*ailment) {
                    continue;
                }
                // Of MIG devices that have modes of their own each is named.
                let of_device = *ailment == Ailment::Prohibited && device.slot.is_some();
                if !of_device && told.contains(&(device.gpu, *ailment)) {
                    continue;
                }
                told.push((device.gpu, *ailment));
                let (what, target) = if of_device {
                    (device.uuid.to_string(), device.uuid.to_string())
                } else {
                    (format!("GPU {}", device.gpu), device.gpu.to_string())
                };
                let remedy = ailment.remedy().replace("-i GPU", &format!("-i {target}"));
                findings.wrong("health", &format!("{what}: {}", ailment.text()), &remedy);
            }
        }
    }

    /// The compute mode of each device; those with another mode than the default are named.
    fn report_modes(&self, findings: &mut Findings) {
        let mut modes: BTreeMap<&str, Vec<&Device>> = BTreeMap::new();
        for (device, health) in &self.devices {
            let mode = health
                .compute_mode
                .map_or("not reported", ComputeMode::text);
            modes.entry(mode).or_default().push(device);
        }
        let parts: Vec<String> = modes
            .into_iter()
            .map(|(mode, devices)| {
                let named = [ComputeMode::ExclusiveProcess, ComputeMode::Prohibited];
                if named.iter().any(|named| named.text() == mode) {
                    let uuids: Vec<&str> = devices.iter().map(|d| d.uuid.as_str()).collect();
                    format!("{mode}: {}", uuids.join(", "))
                } else {
                    format!("{mode}: {}", counted(devices.len(), "device"))
                }
            })
            .collect();
        if !parts.is_empty() {
            findings.fine("compute mode", &parts.join("; "));
        }
    }
}
