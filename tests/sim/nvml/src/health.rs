//! What the library says of the health of GPUs: as `faults.toml` has it, else that all is well.
//! Which kind of GPU answers which call follows NVIDIA's header.

use crate::abi::{FABRIC_V2, FabricInfo};
use crate::codes::{NOT_SUPPORTED, Reply};
use crate::handle::Device;
use crate::session::Session;
use sim_node::{HealthFault, Version};

/// NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
const RECOVERY_ACTION: u32 = 230;
/// NVML_FI_DEV_PENDING_BANK_REMAPPING, and the first branch that is known to have it.
const BANKS_PENDING: u32 = 307;
const HAS_BANKS: Version = Version(590, 0, 0);
/// The header of CUDA 12.9, which came with this driver, has the field.
const HAS_RECOVERY_ACTION: Version = Version(575, 0, 0);
/// From about here on a MIG device has a compute mode of its own, and its GPU none (nvml.h 13.3).
const HAS_MIG_MODES: Version = Version(580, 0, 0);

impl Session {
    /// What is wrong with a device, or with the GPU that it is on.
    pub(crate) fn fault(&self, device: Device) -> Reply<HealthFault> {
        let (gpu, uuids) = self.names(device);
        let mut faults = self.faults.health.iter();
        let fault = faults.find(|fault| fault.is_about(gpu, &uuids));
        self.parent(device)?;
        Ok(fault.cloned().unwrap_or_default())
    }

    pub(crate) fn compute_mode(&self, device: Device) -> Reply<u32> {
        let has_own = self.node.version >= HAS_MIG_MODES;
        let is_told = match device {
            Device::Mig(..) => has_own,
            _ => !(has_own && self.gpu(device)?.in_mig_mode()),
        };
        let mode = self.fault(device)?.compute_mode.unwrap_or(0);
        if is_told {
            Ok(mode)
        } else {
            Err(NOT_SUPPORTED)
        }
    }

    pub(crate) fn persistence_mode(&self, device: Device) -> Reply<u32> {
        self.gpu(device)?;
        Ok(self.fault(device)?.persistence.unwrap_or(true).into())
    }

    /// Corrected, uncorrected, pending, failed.
    pub(crate) fn remapped_rows(&self, device: Device) -> Reply<[u32; 4]> {
        let gpu = self.gpu(device)?;
        if gpu.in_mig_mode() || gpu.cuda.0 < 8 {
            return Err(NOT_SUPPORTED);
        }
        let fault = self.fault(device)?;
        Ok([0, 0, fault.rows_pending.into(), fault.rows_failed.into()])
    }

    /// As on a node without NVSwitches where nothing else is said.
    pub(crate) fn fabric(&self, device: Device) -> Reply<FabricInfo> {
        self.gpu(device)?;
        let [state, status] = self.fault(device)?.fabric.ok_or(NOT_SUPPORTED)?;
        Ok(FabricInfo {
            version: FABRIC_V2,
            status,
            state: state as u8,
            ..FabricInfo::default()
        })
    }

    pub(crate) fn unrepairable(&self, device: Device) -> Reply<u32> {
        self.gpu(device)?;
        Ok(self.fault(device)?.unrepairable.into())
    }

    /// About the node: where any fault says something.
    pub(crate) fn accepts_work(&self) -> Reply<u32> {
        let mut faults = self.faults.health.iter();
        let told = faults.find_map(|fault| fault.accepts_work);
        told.map(Into::into).ok_or(NOT_SUPPORTED)
    }

    /// GPUs before Ampere retire pages.
    pub(crate) fn pages_pending(&self, device: Device) -> Reply<u32> {
        if self.gpu(device)?.cuda.0 >= 8 {
            return Err(NOT_SUPPORTED);
        }
        Ok(self.fault(device)?.pages_pending.into())
    }

    pub(crate) fn field(&self, device: Device, field: u32) -> Reply<u32> {
        if self.node.version < HAS_RECOVERY_ACTION {
            return Err(NOT_SUPPORTED);
        }
        self.gpu(device)?;
        let fault = self.fault(device)?;
        if field == BANKS_PENDING && self.node.version >= HAS_BANKS {
            return Ok(fault.banks_pending.into());
        }
        if field != RECOVERY_ACTION {
            return Err(NOT_SUPPORTED);
        }
        fault.field_returns.map_or(Ok(()), Err)?;
        Ok(fault.recovery_action.unwrap_or(0))
    }
}
