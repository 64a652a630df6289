//! What a GPU does now, for people and for a monitor: how busy, how much power, how warm. A MIG device is
//! asked about by its GPU, and a GPU in MIG mode does not tell its utilisation.

use getgpu_model::Gauge;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;

use super::session::Session;

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
