//! What a GPU does now, for people and for a monitor: how busy, how much power, how warm. A MIG device is
//! asked about by its GPU, and a GPU in MIG mode does not tell its utilisation.

use std::time::Duration;

use getgpu_ask::NvmlQuestion;
use getgpu_model::Gauge;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::gpm_metrics_get;

use super::session::Session;

/// Two samples of a GPU instance have to be further apart (nvml.h: 100 ms).
const INTERVAL: Duration = Duration::from_millis(150);

/// How many percent of the time anything has computed on a device of late; none if NVML does not tell
/// it. Of a MIG device that is what its GPU instance does now, by nvmlGpmMigSampleGet: Hopper and newer.
pub(super) fn utilization(session: &mut Session<'_>, device: &NvmlQuestion) -> Option<u32> {
    let (gpu, slot) = session.place(device).ok()?;
    let Some(slot) = slot else {
        return gauge(session, gpu, Gauge::Utilization);
    };
    let device = session.handle(gpu, Some(slot)).ok()?;
    let (instance, _) = session.instance(gpu, slot, &device)?;
    let handle = session.handle(gpu, None).ok()?;
    let before = handle.gpm_mig_sample(instance).ok()?;
    std::thread::sleep(INTERVAL);
    let after = handle.gpm_mig_sample(instance).ok()?;
    let asked = [GpmMetricId::GraphicsUtil];
    let told = gpm_metrics_get(session.nvml, &before, &after, &asked).ok()?;
    let percent = told.into_iter().next()?.ok()?.value;
    // A little is not nothing.
    (0.0..=100.0)
        .contains(&percent)
        .then(|| percent.ceil() as u32)
}

/// The number of one GPU; none if NVML does not tell it.
pub(super) fn gauge(session: &mut Session<'_>, gpu: u32, gauge: Gauge) -> Option<u32> {
    let handle = session.handle(gpu, None).ok()?;
    // More than each most is a library gone wrong.
    let (told, most) = match gauge {
        // nvmlDeviceGetUtilizationRates
        Gauge::Utilization => (handle.utilization_rates().map(|rates| rates.gpu), 100),
        // nvmlDeviceGetPowerUsage, in milliwatts
        Gauge::Power => {
            let power = handle.power_usage();
            (power.map(|power| power.saturating_add(500) / 1000), 10_000)
        }
        // nvmlDeviceGetTemperature
        Gauge::Temperature => (handle.temperature(TemperatureSensor::Gpu), 200),
    };
    told.ok().filter(|number| *number <= most)
}
