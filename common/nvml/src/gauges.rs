//! What a GPU does now, for people and for a monitor: how busy, how much power, how warm. A MIG device is
//! asked about by its GPU, and a GPU in MIG mode does not tell its utilisation.

use std::rc::Rc;
use std::time::Duration;

use getgpu_ask::NvmlQuestion;
use getgpu_model::Gauge;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device as Handle, Nvml};

use super::session::Session;

/// Two samples of a GPU instance have to be further apart (nvml.h: 100 ms).
const INTERVAL: Duration = Duration::from_millis(150);

/// A look at how busy a device is.
enum BegunLook<'n> {
    Told(Option<u32>),
    /// The first of two samples of a GPU instance.
    Sampled(Rc<Handle<'n>>, u32, GpmSample<'n>),
}

/// How many percent of the time anything has computed on each of these devices of late; none if NVML
/// does not tell it. Of a MIG device that is what its GPU instance does now, by nvmlGpmMigSampleGet:
/// Hopper and newer. All are watched at once.
pub(super) fn utilizations(
    session: &mut Session<'_>,
    devices: &[NvmlQuestion],
) -> Vec<Option<u32>> {
    let looks = devices.iter().map(|device| begun(session, device));
    let looks: Vec<BegunLook<'_>> = looks
        .map(|look| look.unwrap_or(BegunLook::Told(None)))
        .collect();
    if looks
        .iter()
        .any(|look| matches!(look, BegunLook::Sampled(..)))
    {
        std::thread::sleep(INTERVAL);
    }
    let told = looks.iter().map(|look| match look {
        BegunLook::Told(percent) => *percent,
        BegunLook::Sampled(gpu, instance, before) => between(session.nvml, gpu, *instance, before),
    });
    told.collect()
}

fn begun<'n>(session: &mut Session<'n>, device: &NvmlQuestion) -> Option<BegunLook<'n>> {
    let (gpu, slot) = session.place(device).ok()?;
    let Some(slot) = slot else {
        return Some(BegunLook::Told(gauge(session, gpu, Gauge::Utilization)));
    };
    let (instance, _) = session.instance(gpu, slot)?;
    let handle = session.handle(gpu, None).ok()?;
    let before = handle.gpm_mig_sample(instance).ok()?;
    Some(BegunLook::Sampled(handle, instance, before))
}

/// What a GPU instance has done since the first sample.
fn between<'n>(
    nvml: &'n Nvml,
    gpu: &Handle<'n>,
    instance: u32,
    before: &GpmSample<'n>,
) -> Option<u32> {
    let after = gpu.gpm_mig_sample(instance).ok()?;
    let asked = [GpmMetricId::GraphicsUtil];
    let told = gpm_metrics_get(nvml, before, &after, &asked).ok()?;
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
