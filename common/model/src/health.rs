//! What NVML says of the health of a device: whether CUDA cannot or should not start there, and
//! what an administrator can do. Names, texts and remedies in one table. Pure.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ailment {
    /// Compute mode PROHIBITED.
    Prohibited,
    /// Compute mode EXCLUSIVE_PROCESS.
    ExclusiveProcess,
    /// NVML_GPU_RECOVERY_ACTION_GPU_RESET, or a call that said NVML_ERROR_RESET_REQUIRED.
    NeedsReset,
    /// NVML_GPU_RECOVERY_ACTION_NODE_REBOOT
    NeedsReboot,
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
    /// nvmlDeviceGetRetiredPagesPendingStatus: pages are retired at the next reboot.
    PageRetirementPending,
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
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 11] = [
        Self::Prohibited,
        Self::ExclusiveProcess,
        Self::NeedsReset,
        Self::NeedsReboot,
        Self::NeedsDrainAndReset,
        Self::NeedsDrainOfP2p,
        Self::NeedsImexRecovery,
        Self::RowRemapFailed,
        Self::RowRemapPending,
        Self::PageRetirementPending,
        Self::Lost,
    ];

    /// What it keeps from being done with the device.
    pub(crate) const fn consequence(self) -> Consequence {
        match self {
            Self::ExclusiveProcess => Consequence::OneProgram,
            Self::NeedsDrainOfP2p
            | Self::NeedsImexRecovery
            | Self::RowRemapPending
            | Self::PageRetirementPending => Consequence::Told,
            Self::Prohibited
            | Self::NeedsReset
            | Self::NeedsReboot
            | Self::NeedsDrainAndReset
            | Self::RowRemapFailed
            | Self::Lost => Consequence::Out,
        }
    }

    /// The name in the JSON and in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Prohibited => "prohibited",
            Self::ExclusiveProcess => "exclusive_process",
            Self::NeedsReset => "needs_reset",
            Self::NeedsReboot => "needs_reboot",
            Self::NeedsDrainAndReset => "needs_drain_and_reset",
            Self::NeedsDrainOfP2p => "needs_drain_of_p2p",
            Self::NeedsImexRecovery => "needs_imex_recovery",
            Self::RowRemapFailed => "row_remap_failed",
            Self::RowRemapPending => "row_remap_pending",
            Self::PageRetirementPending => "page_retirement_pending",
            Self::Lost => "lost",
        }
    }

    /// As a person reads it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Prohibited => "compute mode Prohibited: no CUDA program can start there",
            Self::ExclusiveProcess => "compute mode Exclusive_Process: one program at a time",
            Self::NeedsReset => "the GPU needs a reset",
            Self::NeedsReboot => "the GPU needs a reboot of the node",
            Self::NeedsDrainAndReset => "the GPU needs a drain and a reset",
            Self::NeedsDrainOfP2p => "the GPU's peer-to-peer traffic needs a drain",
            Self::NeedsImexRecovery => "the GPU's IMEX domain needs a recovery",
            Self::RowRemapFailed => "a faulty memory row could not be remapped",
            Self::RowRemapPending => "memory rows are remapped at the next reset",
            Self::PageRetirementPending => "memory pages are retired at the next reboot",
            Self::Lost => "the GPU is lost: it has fallen off the bus",
        }
    }

    /// Whether the GPU is no use until it is reset or replaced, or the node rebooted.
    pub fn needs_repair(self) -> bool {
        self != Self::Prohibited && self.consequence() == Consequence::Out
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
            Self::NeedsReboot | Self::Lost => {
                "reboot the node; if it comes back, have the GPU replaced"
            }
            Self::NeedsDrainOfP2p => {
                "end the programs that use several GPUs together; no reset is needed"
            }
            Self::NeedsImexRecovery => "restart nvidia-imex on the nodes of the domain",
            Self::RowRemapFailed => "have the GPU replaced (nvidia-smi -q -d ROW_REMAPPER)",
            Self::RowRemapPending => {
                "reset the GPU at the next opportunity: nvidia-smi --gpu-reset -i GPU"
            }
            Self::PageRetirementPending => "reboot the node at the next opportunity",
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

    /// All of it in one text; none if nothing is wrong.
    pub fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self.ailments.iter().map(|ailment| ailment.text()).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// What a value of the field NVML_FI_DEV_GET_GPU_RECOVERY_ACTION says
/// (nvmlDeviceGpuRecoveryAction_t of nvml.h 13.3; 12.9 has the values up to 4).
pub const fn of_recovery_action(value: u64) -> Option<Ailment> {
    match value {
        1 => Some(Ailment::NeedsReset),
        2 => Some(Ailment::NeedsReboot),
        3 => Some(Ailment::NeedsDrainOfP2p),
        4 => Some(Ailment::NeedsDrainAndReset),
        5 => Some(Ailment::NeedsImexRecovery),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ailment_has_the_name_that_is_sent() {
        for ailment in Ailment::ALL {
            let sent = serde_json::to_string(&ailment).unwrap();
            assert_eq!(sent, format!("\"{}\"", ailment.word()));
        }
    }

    #[test]
    fn what_keeps_a_device_from_being_handed_out() {
        let health = |ailments: &[Ailment]| Health {
            ailments: ailments.to_vec(),
            ..Health::default()
        };
        let told = [1, 2, 3, 4, 5, 0, 6, u64::MAX].map(of_recovery_action);
        let out = told.map(|one| one.is_some_and(|one| health(&[one]).objection().is_some()));
        assert_eq!(out, [true, true, false, true, false, false, false, false]);
        let exclusive = health(&[Ailment::ExclusiveProcess, Ailment::RowRemapPending]);
        assert!(exclusive.is_exclusive() && exclusive.objection().is_none());
        let both = health(&[Ailment::RowRemapPending, Ailment::RowRemapFailed]);
        assert_eq!(both.objection(), Some(Ailment::RowRemapFailed));
        assert_eq!(Health::default().text(), None);
    }
}
