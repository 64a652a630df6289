//! Which functions the library of a driver version has. Tests hold it against NVIDIA's own
//! libraries, those of 450.248, 460.106, 470.256, 525.147, 535.274, 550.163 and 555.58.

use sim_node::Version;

use crate::absent;

/// Whether a driver of this version has the function.
pub fn exists(version: Version, function: &str) -> bool {
    match function {
        // The first version of this list is older than the drivers that are simulated.
        "nvmlDeviceGetMPSComputeRunningProcesses_v2" => version.has_mps_clients_v2(),
        "nvmlDeviceGetMemoryInfo_v2" => version.has_memory_v2(),
        "nvmlDeviceGetRunningProcessDetailList" => version.has_process_details(),
        "nvmlSystemGetConfComputeGpusReadyState" | "nvmlDeviceGetConfComputeMemSizeInfo" => {
            version >= Version(535, 43, 0)
        }
        // 460.106 does not have it, 470.256 does.
        "nvmlDeviceGetNvLinkRemoteDeviceType" => version >= Version(470, 0, 0),
        // 470.256 does not have them, 525.147 does.
        name if name.starts_with("nvmlGpm") => version >= Version(520, 0, 0),
        // 535.274 does not have it, 550.54 does.
        "nvmlDeviceGetNumaNodeId" => version >= Version(550, 0, 0),
        "nvmlDeviceGetGpuFabricInfoV" => version >= Version(550, 0, 0),
        // In the headers from 13.1 on, which came with 590, and not in 580's.
        "nvmlDeviceGetUnrepairableMemoryFlag_v1" => version >= Version(590, 0, 0),
        // In nvml.h 13.5, which came with 615.
        "nvmlDeviceSetMemoryLimits_v1" | "nvmlDeviceGetMemoryLimits_v1" => {
            version >= Version(615, 0, 0)
        }
        "nvmlDeviceGetDriverModel_v2" => version >= Version(555, 0, 0),
        // In the header of CUDA 12.9, which came with 575, and not in 555.58.
        "nvmlDeviceGetTemperatureV" => version >= Version(575, 0, 0),
        name if name.ends_with("RunningProcesses_v3") => version.has_processes_v3(),
        _ => true,
    }
}

/// Functions that are only there to be looked up: whatever the driver, they say
/// FUNCTION_NOT_FOUND.
pub const fn without_an_answer() -> &'static [&'static str] {
    absent::NAMES
}

/// Whether the function answers where MPS locality domains are listed instead of GPUs
/// (nvml.h 13.5); every other one is not supported there.
pub(crate) fn knows_mps_domains(function: &str) -> bool {
    matches!(
        function,
        "nvmlDeviceGetCount_v2"
            | "nvmlDeviceGetHandleByIndex_v2"
            | "nvmlDeviceGetIndex"
            | "nvmlDeviceGetHandleByUUID"
            | "nvmlDeviceGetUUID"
            | "nvmlDeviceGetHandleByPciBusId_v2"
            | "nvmlDeviceGetName"
            | "nvmlDeviceGetCudaComputeCapability"
            | "nvmlDeviceGetPciInfo_v3"
            | "nvmlDeviceGetNumaNodeId"
            | "nvmlDeviceGetCpuAffinity"
            | "nvmlDeviceGetMemoryInfo"
            | "nvmlDeviceGetMemoryInfo_v2"
    )
}
