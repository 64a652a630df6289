//! What NVML says of a GPU's health, and of the compute mode of a device: some calls in a
//! session. What a driver does not support, or does not tell us, is as if nothing were wrong.

use nvml_wrapper::Device as Handle;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;

use super::fault::{self, Fault, ask, with_retries};
use super::raw;
use super::session::{ListedPlace, Session};
use getgpu_model::{
    Ailment, ComputeMode, Detail, Health, of_compute_mode, of_fabric, of_recovery_action,
};

/// NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (nvml.h 12.9 and 13.3) and NVML_FI_DEV_PENDING_BANK_REMAPPING
/// (13.5), in one call.
const FIELDS: [FieldId; 2] = [FieldId(230), FieldId(307)];

/// The health of the device at a place; with full detail also what an older GPU says.
pub(super) fn health(session: &mut Session<'_>, place: ListedPlace, detail: Detail) -> Health {
    let Ok(gpu) = session.handle(place.0, None) else {
        return Health::default();
    };
    let compute_mode = compute_mode(session, place, &gpu);
    let of_mode = match compute_mode {
        Ok(Some(ComputeMode::Prohibited)) => Some(Ailment::Prohibited),
        Ok(Some(ComputeMode::ExclusiveProcess)) => Some(Ailment::ExclusiveProcess),
        Ok(_) => None,
        Err(ailment) => Some(ailment),
    };
    let of_gpu = session.ailments(place.0, |session| {
        let fields = of_fields(&gpu);
        // "On MIG-enabled GPUs with active instances, querying the number of remapped rows is
        // not supported" (nvml.h), and GPUs that retire pages have no MIG.
        // MIG devices do not use NVLink.
        let of_whole = match place.1 {
            None => faulty_memory(session, &gpu, detail)
                .into_iter()
                .chain(fabric(session, &gpu))
                .chain(conf_compute(session))
                .collect(),
            Some(_) => Vec::new(),
        };
        let memory = unrepairable(session, &gpu);
        fields.into_iter().chain(memory).chain(of_whole).collect()
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
        Ok((pending, failed)) => {
            ailments.extend(failed.then_some(Ailment::RowRemapFailed));
            ailments.extend(pending.then_some(Ailment::RowRemapPending));
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

/// What the NVLink fabric of a whole GPU is like; a driver or a GPU without one says nothing.
fn fabric(session: &Session<'_>, gpu: &Handle<'_>) -> Option<Ailment> {
    match raw::fabric(session.nvml, gpu) {
        Ok((state, status)) => of_fabric(state, status),
        Err(fault) => of_fault(&fault),
    }
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
) -> Result<Option<ComputeMode>, Ailment> {
    if let Some(known) = session.gpu_modes.get(&gpu) {
        return Ok(*known);
    }
    if let Some(slot) = slot
        && let Ok(device) = session.handle(gpu, Some(slot))
        && let Some(mode) = mode_of(session, &device)?
    {
        return Ok(Some(mode));
    }
    // The other MIG devices of this GPU need not be asked.
    let mode = mode_of(session, of_gpu)?;
    session.gpu_modes.insert(gpu, mode);
    Ok(mode)
}

/// The mode of this handle; none if it is not told.
fn mode_of(session: &Session<'_>, handle: &Handle<'_>) -> Result<Option<ComputeMode>, Ailment> {
    match with_retries(|| raw::compute_mode(session.nvml, handle)) {
        Ok(mode) => of_compute_mode(mode).map(Some),
        Err(fault) => of_fault(&fault).map_or(Ok(None), Err),
    }
}

/// nvmlDeviceGetFieldValues: what the driver says has to be done with the GPU, and with its memory.
fn of_fields(gpu: &Handle<'_>) -> Vec<Ailment> {
    let call = "DeviceGetFieldValues";
    let samples = match ask(call, || gpu.field_values_for(&FIELDS)) {
        Ok(samples) => samples,
        Err(fault) => return of_fault(&fault).into_iter().collect(),
    };
    let told = samples
        .into_iter()
        .map(|sample| sample.and_then(|sample| sample.value));
    let mut values = told.map(|value| match value {
        Ok(SampleValue::U32(value)) => Ok(u64::from(value)),
        Ok(SampleValue::U64(value)) => Ok(value),
        // A number of another kind is none that is known.
        Ok(_) => Ok(u64::MAX),
        Err(error) => Err(Fault::from(call, &error)),
    });
    let action = match values.next() {
        Some(Ok(value)) => of_recovery_action(value),
        Some(Err(fault)) => of_fault(&fault),
        None => None,
    };
    let banks = values.next().is_some_and(|value| value == Ok(1));
    let banks = banks.then_some(Ailment::BankRemapPending);
    action.into_iter().chain(banks).collect()
}

/// Whether its memory has an error that cannot be repaired; older drivers do not tell.
fn unrepairable(session: &Session<'_>, gpu: &Handle<'_>) -> Option<Ailment> {
    match raw::has_unrepairable_memory(session.nvml, gpu) {
        Ok(true) => Some(Ailment::UnrepairableMemory),
        Ok(false) => None,
        Err(fault) => of_fault(&fault),
    }
}

/// Whether the node's GPUs are kept from work by confidential computing, which knows no MIG.
fn conf_compute(session: &Session<'_>) -> Option<Ailment> {
    let accepts = raw::accepts_work(session.nvml);
    (accepts == Ok(false)).then_some(Ailment::NotAcceptingWork)
}

/// nvmlDeviceGetPersistenceMode: whether the driver stays attached to a GPU that no process
/// uses; none if it is not told.
pub(super) fn persistence(session: &mut Session<'_>, gpu: u32) -> Option<bool> {
    let handle = session.handle(gpu, None).ok()?;
    handle.is_in_persistent_mode().ok()
}
