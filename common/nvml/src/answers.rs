//! What single answers of NVML mean: whether a text is a UUID, the profile in a name, whether
//! a GPU is in MIG mode. What a version of the library does not say is absent, not wrong.

use nvml_wrapper::{Device as Handle, Nvml};

use super::fault::{Fault, ask};
use super::{device_files, raw};
use getgpu_model::{Uuid, WITHOUT_PREFIX};

/// A Jetson Orin gives its GPU a UUID without `GPU-` (pytorch issue 167304), which names
/// nothing in CUDA_VISIBLE_DEVICES.
pub(super) fn not_a_uuid(text: &str) -> Fault {
    let why = if Uuid::parse(&format!("GPU-{text}")).is_some() {
        format!("{text}: {WITHOUT_PREFIX}: CUDA_VISIBLE_DEVICES cannot name it, so it is not used")
    } else {
        // Not the text itself: it may hold anything.
        "the answer is not a UUID".to_owned()
    };
    Fault::unusable("DeviceGetUUID", why)
}

/// The profile at the end of a MIG device's name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
pub(super) fn profile_of(nvml: &Nvml, handle: &Handle<'_>) -> Option<String> {
    let name = raw::name(nvml, handle).ok()?;
    Some(name.rsplit_once("MIG ")?.1.trim().to_owned())
}

/// Whether this process may open the nodes of a device: the GPU's, and for a MIG device
/// those of its instances.
pub(super) fn is_usable(minor: u32, instance: Option<(u32, u32)>) -> bool {
    device_files::gpu_usable(minor)
        && instance.is_none_or(|(gi, ci)| device_files::instance_usable(minor, gi, ci))
}

/// Whether a GPU is in MIG mode; one that does not know the mode is not.
pub(super) fn has_mig(gpu: &Handle<'_>) -> Result<bool, Fault> {
    match ask("DeviceGetMigMode", || gpu.mig_mode()) {
        Ok(mode) => in_mig_mode(mode.current),
        Err(fault) if fault.absent() => Ok(false),
        Err(fault) => Err(fault),
    }
}

pub(super) fn mig_slots(gpu: &Handle<'_>) -> Result<u32, Fault> {
    ask("DeviceGetMaxMigDeviceCount", || gpu.mig_device_count())
}

/// Whether MIG mode is on (NVML_DEVICE_MIG_ENABLE). A GPU whose mode is neither on nor off
/// must not be given away whole.
fn in_mig_mode(mode: u32) -> Result<bool, Fault> {
    match mode {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Fault::unusable(
            "DeviceGetMigMode",
            format!("mode {mode} is neither on nor off"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::in_mig_mode;

    #[test]
    fn a_mode_that_is_neither_on_nor_off_is_a_fault() {
        assert_eq!([0, 1].map(in_mig_mode), [Ok(false), Ok(true)]);
        for mode in [2, 0x0100, u32::MAX] {
            assert!(in_mig_mode(mode).is_err(), "{mode}");
        }
    }
}
