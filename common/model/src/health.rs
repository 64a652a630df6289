//! What NVML says of the health of a device: whether CUDA cannot or should not start there, and
//! what an administrator can do. Names, texts and remedies in one table. Pure.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How many programs may compute on a device (nvmlComputeMode_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeMode {
    /// NVML_COMPUTEMODE_DEFAULT: any number.
    Default,
    /// NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: one.
    ExclusiveProcess,
    /// NVML_COMPUTEMODE_PROHIBITED: none.
    Prohibited,
}

impl ComputeMode {
    /// As nvidia-smi calls it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::ExclusiveProcess => "Exclusive_Process",
            Self::Prohibited => "Prohibited",
        }
    }
}

/// Something that is wrong with a GPU, or that was set on it. The names are those of the JSON
/// and the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Ailment {
    /// Compute mode PROHIBITED.
    Prohibited,
    /// Compute mode EXCLUSIVE_PROCESS.
    ExclusiveProcess,
    /// NVML_GPU_RECOVERY_ACTION_GPU_RESET, or a call that said NVML_ERROR_RESET_REQUIRED.
    NeedsReset,
    /// NVML_GPU_RECOVERY_ACTION_NODE_REBOOT or NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT
    NeedsReboot,
    /// NVML_GPU_RECOVERY_ACTION_BUS_RESET
    NeedsBusReset,
    /// NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET
    NeedsDrainAndReset,
    /// NVML_GPU_RECOVERY_ACTION_DRAIN_P2P
    NeedsDrainOfP2p,
    /// NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN
    NeedsImexRecovery,
    /// nvmlDeviceGetRemappedRows: a row could not be remapped.
    RowRemapFailed,
    /// nvmlDeviceGetRemappedRows: rows are remapped at the next reset.
    RowRemapPending,
    /// NVML_FI_DEV_PENDING_BANK_REMAPPING: memory banks are remapped at the next reset.
    BankRemapPending,
    /// nvmlDeviceGetUnrepairableMemoryFlag_v1
    UnrepairableMemory,
    /// nvmlSystemGetConfComputeGpusReadyState says NVML_CC_ACCEPTING_CLIENT_REQUESTS_FALSE.
    NotAcceptingWork,
    /// nvmlDeviceGetRetiredPagesPendingStatus: pages are retired at the next reboot.
    PageRetirementPending,
    /// NVML_GPU_FABRIC_STATE_NOT_STARTED or NVML_GPU_FABRIC_STATE_IN_PROGRESS of a whole GPU:
    /// CUDA fails with 802 there.
    FabricNotReady,
    /// NVML_GPU_FABRIC_STATE_COMPLETED with a status that is not NVML_SUCCESS.
    FabricError,
    /// NVML gave a number for its state that this version does not know.
    UnknownState,
    /// A call said NVML_ERROR_GPU_IS_LOST.
    Lost,
}

/// What an ailment means for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// The device is not handed out.
    Out,
    /// It is for one program, so no second share of it is handed out.
    OneProgram,
    /// It is told, and decides nothing.
    Told,
}

const RESET: &str = "end the programs on this GPU and reset it: nvidia-smi --gpu-reset -i GPU";

impl Ailment {
    /// What it keeps from being done with the device.
    pub(crate) const fn consequence(self) -> Consequence {
        match self {
            Self::ExclusiveProcess => Consequence::OneProgram,
            Self::NeedsDrainOfP2p
            | Self::NeedsImexRecovery
            | Self::RowRemapPending
            | Self::BankRemapPending
            | Self::PageRetirementPending
            | Self::FabricError => Consequence::Told,
            Self::Prohibited
            | Self::NeedsReset
            | Self::NeedsReboot
            | Self::NeedsBusReset
            | Self::NeedsDrainAndReset
            | Self::RowRemapFailed
            | Self::UnrepairableMemory
            | Self::NotAcceptingWork
            | Self::FabricNotReady
            | Self::UnknownState
            | Self::Lost => Consequence::Out,
        }
    }

    /// As a person reads it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Prohibited => "compute mode Prohibited: no CUDA program can start there",
            Self::ExclusiveProcess => "compute mode Exclusive_Process: one program at a time",
            Self::NeedsReset => "the GPU needs a reset",
            Self::NeedsReboot => "the GPU needs a reboot of the node",
            Self::NeedsBusReset => "the GPU needs a reset of its PCIe bus",
            Self::NeedsDrainAndReset => "the GPU needs a drain and a reset",
            Self::NeedsDrainOfP2p => "the GPU's peer-to-peer traffic needs a drain",
            Self::NeedsImexRecovery => "the GPU's IMEX domain needs a recovery",
            Self::RowRemapFailed => "a faulty memory row could not be remapped",
            Self::RowRemapPending => "memory rows are remapped at the next reset",
            Self::BankRemapPending => "memory banks are remapped at the next reset",
            Self::UnrepairableMemory => "its memory has an error that cannot be repaired",
            Self::NotAcceptingWork => {
                "confidential computing is on and its GPUs accept no work: CUDA fails there"
            }
            Self::PageRetirementPending => "memory pages are retired at the next reboot",
            Self::FabricNotReady => {
                "its NVLink fabric is not ready: CUDA fails there with error 802"
            }
            Self::FabricError => "its NVLink fabric was set up with an error",
            Self::UnknownState => "NVML reports a state of it that this version does not know",
            Self::Lost => "the GPU is lost: it has fallen off the bus",
        }
    }

    /// Several in one text; none if nothing is wrong.
    pub fn texts(ailments: &[Self]) -> Option<String> {
        let texts: Vec<&str> = ailments.iter().map(|ailment| ailment.text()).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Whether the GPU is no use until it is reset or replaced, or the node rebooted.
    /// A state that is not known is none to drain a node for.
    pub fn needs_repair(self) -> bool {
        !matches!(
            self,
            Self::Prohibited | Self::UnknownState | Self::NotAcceptingWork
        ) && self.consequence() == Consequence::Out
    }

    /// What an administrator can do.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Prohibited => {
                "nvidia-smi -i GPU -c 0 (as root) lets programs compute there again"
            }
            Self::ExclusiveProcess => {
                "if you did not set it: nvidia-smi -i GPU -c 0 (as root); shares of it need --mps"
            }
            Self::NeedsReset | Self::NeedsDrainAndReset => RESET,
            Self::NeedsBusReset => {
                "end the programs on this GPU, then: nvidia-smi --gpu-reset -i GPU, or reboot the node"
            }
            Self::NeedsReboot | Self::Lost => {
                "reboot the node; if it comes back, have the GPU replaced"
            }
            Self::NeedsDrainOfP2p => {
                "end the programs that use several GPUs together; no reset is needed"
            }
            Self::NeedsImexRecovery => "restart nvidia-imex on the nodes of the domain",
            Self::RowRemapFailed => "have the GPU replaced (nvidia-smi -q -d ROW_REMAPPER)",
            Self::UnrepairableMemory => "have the GPU replaced (nvidia-smi -q -i GPU)",
            Self::NotAcceptingWork => {
                "once the GPUs are attested: nvidia-smi conf-compute -srs 1 (as root)"
            }
            Self::RowRemapPending | Self::BankRemapPending => {
                "reset the GPU at the next opportunity: nvidia-smi --gpu-reset -i GPU"
            }
            Self::PageRetirementPending => "reboot the node at the next opportunity",
            Self::FabricNotReady => {
                "start nvidia-fabricmanager, of the same version as the driver (nvidia-smi -q -i GPU: Fabric)"
            }
            Self::FabricError => {
                "read the log of nvidia-fabricmanager (nvidia-smi -q -i GPU: Fabric)"
            }
            Self::UnknownState => {
                "see nvidia-smi -q -i GPU, and install a getgpu that knows this driver"
            }
        }
    }
}

/// All that NVML says of a device's health.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// None: not asked, or not told.
    pub compute_mode: Option<ComputeMode>,
    /// What is wrong, or set; the worst first.
    pub ailments: Vec<Ailment>,
}

impl Health {
    /// What keeps the device from being handed out.
    pub fn objection(&self) -> Option<Ailment> {
        let mut ailments = self.ailments.iter().copied();
        ailments.find(|ailment| ailment.consequence() == Consequence::Out)
    }

    /// Whether the device is for one program at a time.
    pub fn is_exclusive(&self) -> bool {
        self.ailments.contains(&Ailment::ExclusiveProcess)
    }
}

/// What a value of the field NVML_FI_DEV_GET_GPU_RECOVERY_ACTION says
/// (nvmlDeviceGpuRecoveryAction_t of nvml.h 13.5; 13.3 has the values up to 5, 12.9 up to 4).
/// A number that is not known may mean anything: the GPU is not well.
pub const fn of_recovery_action(value: u64) -> Option<Ailment> {
    match value {
        0 => None,
        1 => Some(Ailment::NeedsReset),
        2 | 7 => Some(Ailment::NeedsReboot),
        3 => Some(Ailment::NeedsDrainOfP2p),
        4 => Some(Ailment::NeedsDrainAndReset),
        5 => Some(Ailment::NeedsImexRecovery),
        6 => Some(Ailment::NeedsBusReset),
        _ => Some(Ailment::UnknownState),
    }
}

/// What the state of a GPU's NVLink fabric says (NVML_GPU_FABRIC_STATE_* of nvml.h 13.5), and
/// the status beside it, which counts only in the state COMPLETED.
pub const fn of_fabric(state: u8, status: u32) -> Option<Ailment> {
    match (state, status) {
        (0, _) | (3, 0) => None,
        (1 | 2, _) => Some(Ailment::FabricNotReady),
        (3, _) => Some(Ailment::FabricError),
        _ => Some(Ailment::UnknownState),
    }
}

/// What a number of nvmlComputeMode_t says; an ailment where it is not known.
///
/// # Errors
///
/// The number is not known.
pub const fn of_compute_mode(mode: u32) -> Result<ComputeMode, Ailment> {
    match mode {
        0 => Ok(ComputeMode::Default),
        // NVML_COMPUTEMODE_EXCLUSIVE_THREAD is "Support Removed" in nvml.h.
        1 | 3 => Ok(ComputeMode::ExclusiveProcess),
        2 => Ok(ComputeMode::Prohibited),
        _ => Err(Ailment::UnknownState),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ailment_has_the_name_that_is_sent() {
        for ailment in Ailment::value_variants() {
            let sent = serde_json::to_string(ailment).unwrap();
            assert_eq!(sent, format!("\"{}\"", crate::word_of(ailment)));
        }
    }

    #[test]
    fn what_keeps_a_device_from_being_handed_out() {
        let health = |ailments: &[Ailment]| Health {
            ailments: ailments.to_vec(),
            ..Health::default()
        };
        let is_out =
            |one: Option<Ailment>| one.is_some_and(|one| health(&[one]).objection().is_some());
        let told = [1, 2, 3, 4, 5, 0, 6, 7, 8, u64::MAX].map(of_recovery_action);
        let out = told.map(is_out);
        assert_eq!(
            out,
            [
                true, true, false, true, false, false, true, true, true, true
            ]
        );
        let fabric = [(0, 0), (1, 0), (2, 0), (3, 0), (3, 999), (4, 0)];
        let out = fabric.map(|(state, status)| is_out(of_fabric(state, status)));
        assert_eq!(out, [false, true, true, false, false, true]);
        assert_eq!(of_fabric(3, 999), Some(Ailment::FabricError));
        let modes = [0, 1, 2, 3, 4].map(of_compute_mode);
        assert!(modes[..4].iter().all(Result::is_ok) && modes[4] == Err(Ailment::UnknownState));
        let exclusive = health(&[Ailment::ExclusiveProcess, Ailment::RowRemapPending]);
        assert!(exclusive.is_exclusive() && exclusive.objection().is_none());
        let both = health(&[Ailment::RowRemapPending, Ailment::RowRemapFailed]);
        assert_eq!(both.objection(), Some(Ailment::RowRemapFailed));
        assert_eq!(Ailment::texts(&[]), None);
    }
}
