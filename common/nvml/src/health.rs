//! What NVML says of a GPU's health, and of the compute mode of a device: three calls in a
//! session. What a driver does not support, or does not tell us, is as if nothing were wrong.

use nvml_wrapper::Device as Handle;
use nvml_wrapper::enum_wrappers::device::ComputeMode as Mode;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;

use super::fault::{self, Fault, ask};
use super::raw;
use super::session::{ListedPlace, Session};
use getgpu_model::{Ailment, ComputeMode, Detail, Health, of_recovery_action};

/// NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (nvml.h 12.9 and 13.3).
const RECOVERY_ACTION: FieldId = FieldId(230);

/// The health of the device at a place; with full detail also what an older GPU says.
pub(super) fn health(session: &mut Session<'_>, place: ListedPlace, detail: Detail) -> Health {
    let Ok(gpu) = session.handle(place.0, None) else {
        return Health::default();
    };
    let compute_mode = compute_mode(session, place, &gpu);
    let of_mode = match &compute_mode {
        Ok(Some(ComputeMode::Prohibited)) => Some(Ailment::Prohibited),
        Ok(Some(ComputeMode::ExclusiveProcess)) => Some(Ailment::ExclusiveProcess),
        Ok(_) => None,
        Err(fault) => of_fault(fault),
    };
    let of_gpu = session.ailments(place.0, |session| {
        let action = recovery_action(&gpu).unwrap_or_else(|fault| of_fault(&fault));
        // "On MIG-enabled GPUs with active instances, querying the number of remapped rows is
        // not supported" (nvml.h), and GPUs that retire pages have no MIG.
        let memory = match place.1 {
            None => faulty_memory(session, &gpu, detail),
            Some(_) => Vec::new(),
        };
        action.into_iter().chain(memory).collect()
    });
    let mut ailments: Vec<Ailment> = of_mode.into_iter().chain(of_gpu).collect();
    ailments.dedup();
    Health {
        compute_mode: compute_mode.unwrap_or_default(),
        ailments,
    }
}

/// What is wrong with the memory of a whole GPU.
fn faulty_memory(session: &Session<'_>, gpu: &Handle<'_>, detail: Detail) -> Vec<Ailment> {
    let mut ailments = Vec::new();
    match raw::remapped_rows(session.nvml, gpu) {
        Ok(rows) => {
            ailments.extend(rows.failed.then_some(Ailment::RowRemapFailed));
            ailments.extend(rows.pending.then_some(Ailment::RowRemapPending));
        }
        // GPUs before Ampere retire pages. That is told only, so a choice does not ask.
        Err(fault) if fault.absent() && detail >= Detail::Full => {
            let is_pending = gpu.are_pages_pending_retired().unwrap_or(false);
            ailments.extend(is_pending.then_some(Ailment::PageRetirementPending));
        }
        Err(fault) => ailments.extend(of_fault(&fault)),
    }
    ailments
}

/// What a failed call says of the GPU, whatever was asked.
pub(super) fn of_fault(fault: &Fault) -> Option<Ailment> {
    match fault.code {
        fault::GPU_IS_LOST => Some(Ailment::Lost),
        fault::RESET_REQUIRED => Some(Ailment::NeedsReset),
        _ => None,
    }
}

/// nvmlDeviceGetComputeMode of the MIG device (nvml.h 13.3: with MIG enabled, the handle must
/// be a MIG device's), else, with drivers that have no mode of a MIG device, of its GPU.
fn compute_mode(
    session: &mut Session<'_>,
    (gpu, slot): ListedPlace,
    of_gpu: &Handle<'_>,
) -> Result<Option<ComputeMode>, Fault> {
    if let Some(known) = session.gpu_modes.get(&gpu) {
        return Ok(*known);
    }
    if let Some(slot) = slot
        && let Ok(device) = session.handle(gpu, Some(slot))
        && let Some(mode) = mode_of(&device)?
    {
        return Ok(Some(mode));
    }
    // The other MIG devices of this GPU need not be asked.
    let mode = mode_of(of_gpu)?;
    session.gpu_modes.insert(gpu, mode);
    Ok(mode)
}

/// The mode of this handle; none if it is not told.
fn mode_of(handle: &Handle<'_>) -> Result<Option<ComputeMode>, Fault> {
    match ask("DeviceGetComputeMode", || handle.compute_mode()) {
        Ok(Mode::Prohibited) => Ok(Some(ComputeMode::Prohibited)),
        // NVML_COMPUTEMODE_EXCLUSIVE_THREAD is "Support Removed" in nvml.h.
        Ok(Mode::ExclusiveProcess | Mode::ExclusiveThread) => {
            Ok(Some(ComputeMode::ExclusiveProcess))
        }
        Ok(Mode::Default) => Ok(Some(ComputeMode::Default)),
        Err(fault) if of_fault(&fault).is_some() => Err(fault),
        Err(_) => Ok(None),
    }
}

/// nvmlDeviceGetFieldValues: what the driver says has to be done with the GPU.
fn recovery_action(gpu: &Handle<'_>) -> Result<Option<Ailment>, Fault> {
    let call = "DeviceGetFieldValues";
    let samples = ask(call, || gpu.field_values_for(&[RECOVERY_ACTION]))?;
    let value = match samples
        .into_iter()
        .next()
        .map(|sample| sample.and_then(|sample| sample.value))
    {
        Some(Ok(SampleValue::U32(value))) => u64::from(value),
        Some(Ok(SampleValue::U64(value))) => value,
        Some(Ok(SampleValue::I64(value))) => u64::try_from(value).unwrap_or(0),
        Some(Err(error)) => {
            let fault = Fault::from(call, &error);
            return of_fault(&fault).map_or(Ok(None), |ailment| Ok(Some(ailment)));
        }
        _ => 0,
    };
    Ok(of_recovery_action(value))
}

/// nvmlDeviceGetPersistenceMode: whether the driver stays attached to a GPU that no process
/// uses; none if it is not told.
pub(super) fn persistence(session: &mut Session<'_>, gpu: u32) -> Option<bool> {
    let handle = session.handle(gpu, None).ok()?;
    handle.is_in_persistent_mode().ok()
}
