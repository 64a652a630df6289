//! Whether one program can use all the devices that it gets; it sees only some of several MIG devices.

use getgpu_model::{Device, Failure, Inventory, Kind, usable_together};

/// Whether one program can use these devices together. The others would be leased for
/// nothing.
pub fn check_together(devices: &[Device], inventory: &Inventory) -> Result<(), Failure> {
    let mig = devices.iter().filter(|device| device.slot.is_some());
    check_first_mig(mig.count(), inventory)?;
    check_instances(devices.len(), usable_together(devices), inventory)
}

/// A program sees only the first of several MIG devices before driver 570.
pub fn check_first_mig(mig: usize, inventory: &Inventory) -> Result<(), Failure> {
    if mig < 2 || !inventory.first_mig_only() {
        return Ok(());
    }
    let text = format!(
        "{mig} MIG devices: with this driver (before 570) a program sees only the first of them"
    );
    Err(Failure::new(Kind::NoDevice, text).hint(format!(
        "start one program on each; for a launcher that divides the list among its programs: CUDA_VISIBLE_DEVICES=$(getgpu -n {mig}) LAUNCHER"
    )))
}

/// A program sees one compute instance of each GPU instance from driver 570 on.
pub fn check_instances(
    wanted: usize,
    together: usize,
    inventory: &Inventory,
) -> Result<(), Failure> {
    if together >= wanted || !inventory.one_per_gpu_instance() {
        return Ok(());
    }
    let text = format!(
        "{wanted} devices: a program sees only one compute instance of each GPU instance, here {together} of them"
    );
    Err(Failure::new(Kind::NoDevice, text).hint("start one program on each"))
}
