//! The C types of nvml.h that the simulated library fills, for x86-64 and aarch64.
//! `layouts` prints sizes and offsets, to be compared with those of the official header.

use std::ffi::c_char;
use std::mem::{offset_of, size_of};

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessInfoV1 {
    /// Process.
    pub pid: u32,
    /// Bytes.
    pub used_gpu_memory: u64,
}

/// `nvmlProcessInfo_v2_t`, which is also what the `_v3` lists hold.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Process.
    pub pid: u32,
    /// Bytes.
    pub used_gpu_memory: u64,
    /// GPU instance.
    pub gpu_instance_id: u32,
    /// Compute instance.
    pub compute_instance_id: u32,
}

/// `nvmlProcessDetail_v1_t`; drivers 535.43 to 535.86 wrote this through the `_v3` lists.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessDetail {
    /// Process.
    pub pid: u32,
    /// Bytes.
    pub used_gpu_memory: u64,
    /// GPU instance.
    pub gpu_instance_id: u32,
    /// Compute instance.
    pub compute_instance_id: u32,
    /// Bytes.
    pub used_gpu_cc_protected_memory: u64,
}

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub free: u64,
    /// Bytes, reserved ones included.
    pub used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryV2 {
    /// [`MEMORY_V2`], set by the caller.
    pub version: u32,
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub reserved: u64,
    /// Bytes.
    pub free: u64,
    /// Bytes.
    pub used: u64,
}

/// Version word of [`MemoryV2`]: its size and the number 2.
pub const MEMORY_V2: u32 = 0x0200_0028;

/// `nvmlDeviceAttributes_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// SMs.
    pub multiprocessor_count: u32,
    /// Copy engines.
    pub shared_copy_engine_count: u32,
    /// Decoders.
    pub shared_decoder_count: u32,
    /// Encoders.
    pub shared_encoder_count: u32,
    /// JPEG engines.
    pub shared_jpeg_count: u32,
    /// Optical flow engines.
    pub shared_ofa_count: u32,
    /// Slices of the GPU instance.
    pub gpu_instance_slice_count: u32,
    /// Slices of the compute instance.
    pub compute_instance_slice_count: u32,
    /// MiB.
    pub memory_size_mb: u64,
}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PciInfo {
    /// Bus id with a domain of four digits.
    pub bus_id_legacy: [c_char; 16],
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u32,
    /// Device on the bus.
    pub device: u32,
    /// Device and vendor id.
    pub pci_device_id: u32,
    /// Subsystem id.
    pub pci_sub_system_id: u32,
    /// Bus id with a domain of eight digits.
    pub bus_id: [c_char; 32],
}

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldValue {
    /// Which number.
    pub field_id: u32,
    /// Of which part, for some of them.
    pub scope_id: u32,
    /// Microseconds.
    pub timestamp: i64,
    /// Microseconds.
    pub latency_usec: i64,
    /// NVML_VALUE_TYPE_UNSIGNED_INT is 1.
    pub value_type: u32,
    /// The return code of this value.
    pub nvml_return: i32,
    /// `nvmlValue_t`, of which the first four bytes are an unsigned int.
    pub value: u64,
}

impl FieldValue {
    /// The same with an answer.
    pub(crate) fn answered(self, told: Result<u32, i32>) -> Self {
        Self {
            value_type: 1,
            nvml_return: told.err().unwrap_or(0),
            value: u64::from(told.unwrap_or(0)),
            ..self
        }
    }
}

/// `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FabricInfo {
    /// [`FABRIC_V2`], set by the caller.
    pub version: u32,
    /// Of the cluster.
    pub cluster_uuid: [u8; 16],
    /// `nvmlReturn_t` of the registration.
    pub status: u32,
    /// Of the cluster's partition.
    pub clique_id: u32,
    /// NVML_GPU_FABRIC_STATE_*
    pub state: u8,
    /// Bits of its health.
    pub health_mask: u32,
}

/// Version word of [`FabricInfo`]: its size and the number 2.
pub const FABRIC_V2: u32 = 0x0200_0024;

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utilization {
    /// Per cent.
    pub gpu: u32,
    /// Per cent.
    pub memory: u32,
}

/// `nvmlSetMemoryLimits_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SetMemoryLimits {
    /// The path of a cgroup in sysfs.
    pub name_space: *const c_char,
    /// Bytes.
    pub soft_limit: u64,
    /// Bytes.
    pub hard_limit: u64,
}

/// `nvmlGetMemoryLimits_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GetMemoryLimits {
    /// The path of a cgroup in sysfs.
    pub name_space: *const c_char,
    /// Bytes.
    pub soft_limit: u64,
    /// Bytes.
    pub hard_limit: u64,
    /// Bytes.
    pub current_used: u64,
}

/// A line `TYPE FIELD OFFSET` for each field and `TYPE size SIZE` for each type, named as
/// in nvml.h.
#[rustfmt::skip]
pub fn layouts() -> String {
    let mut text = String::new();
    macro_rules! layout {
        ($c:literal, $rust:ident, $($field:ident)*) => {
            text += &format!("{} size {}\n", $c, size_of::<$rust>());
            $(text += &format!("{} {} {}\n", $c, c_name(stringify!($field)), offset_of!($rust, $field));)*
        };
    }
    layout!("nvmlProcessInfo_v1_t", ProcessInfoV1, pid used_gpu_memory);
    layout!("nvmlProcessInfo_t", ProcessInfo,
        pid used_gpu_memory gpu_instance_id compute_instance_id);
    layout!("nvmlProcessDetail_v1_t", ProcessDetail,
        pid used_gpu_memory gpu_instance_id compute_instance_id used_gpu_cc_protected_memory);
    layout!("nvmlMemory_t", Memory, total free used);
    layout!("nvmlMemory_v2_t", MemoryV2, version total reserved free used);
    layout!("nvmlDeviceAttributes_t", DeviceAttributes,
        multiprocessor_count shared_copy_engine_count shared_decoder_count shared_encoder_count
        shared_jpeg_count shared_ofa_count gpu_instance_slice_count compute_instance_slice_count
        memory_size_mb);
    layout!("nvmlPciInfo_t", PciInfo,
        bus_id_legacy domain bus device pci_device_id pci_sub_system_id bus_id);
    layout!("nvmlFieldValue_t", FieldValue,
        field_id scope_id timestamp latency_usec value_type nvml_return value);
    layout!("nvmlGpuFabricInfo_v2_t", FabricInfo,
        version cluster_uuid status clique_id state health_mask);
    layout!("nvmlSetMemoryLimits_v1_t", SetMemoryLimits, name_space soft_limit hard_limit);
    layout!("nvmlGetMemoryLimits_v1_t", GetMemoryLimits,
        name_space soft_limit hard_limit current_used);
    layout!("nvmlUtilization_t", Utilization, gpu memory);
    text
}

/// A field's name in nvml.h.
fn c_name(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    let name = words.fold(first, |name, word| {
        name + &word[..1].to_uppercase() + &word[1..]
    });
    name.replace("SizeMb", "SizeMB")
}
