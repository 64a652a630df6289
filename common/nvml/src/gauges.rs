//! What a GPU does now, for people: how busy, how much power, how warm. A MIG device is
//! asked about by its GPU, and a GPU in MIG mode does not tell its utilisation.

use getgpu_common::inventory::Gauge;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;

use super::session::Session;

/// The number of one GPU; none if NVML does not tell it.
pub(super) fn gauge(session: &mut Session<'_>, gpu: u32, gauge: Gauge) -> Option<u32> {
    let handle = session.handle(gpu, None).ok()?;
    let told = match gauge {
        // nvmlDeviceGetUtilizationRates
        Gauge::Utilization => handle.utilization_rates().ok().map(|rates| rates.gpu),
        // nvmlDeviceGetPowerUsage, in milliwatts
        Gauge::Power => handle
            .power_usage()
            .ok()
            .map(|power| power.saturating_add(500) / 1000),
        // nvmlDeviceGetTemperature
        Gauge::Temperature => handle.temperature(TemperatureSensor::Gpu).ok(),
    };
    // More is a library gone wrong.
    let most = match gauge {
        Gauge::Utilization => 100,
        Gauge::Power => 10_000,
        Gauge::Temperature => 200,
    };
    told.filter(|number| *number <= most)
}
