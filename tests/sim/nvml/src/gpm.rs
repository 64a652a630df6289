//! GPU performance monitoring (nvmlGpm..., nvml.h 13.5): the only utilisation that a MIG device has, on
//! Hopper and newer. A sample is a place in memory that the caller keeps as a handle; what happened
//! between two of them is a metric. Of the metrics the first alone is here: how much of the time
//! anything computed. No GPU with MIG was at hand: this is what the header says.
#![allow(unsafe_code, non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::{c_int, c_uint, c_void};
use std::time::{Duration, Instant};

use crate::codes::{INVALID_ARGUMENT, NO_DATA, NOT_SUPPORTED, Reply};
use crate::copy;
use crate::exports::{Handle, code, device};
use crate::handle::Device;
use crate::library::LIBRARY;
use crate::session::{Session, Target};

/// NVML_GPM_METRIC_GRAPHICS_UTIL
const GRAPHICS_UTIL: c_uint = 1;
/// What NVML refreshes its samples after.
const INTERVAL: Duration = Duration::from_millis(100);

/// What a handle points to: when which GPU instance was sampled, and what it did.
struct Sample {
    place: (String, u32),
    at: Instant,
    percent: u32,
}

type SampleHandle = *mut Option<Sample>;

/// `nvmlGpmMetric_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Metric {
    id: c_uint,
    returned: c_int,
    value: f64,
    names: [*const c_void; 3],
}

/// The beginning of `nvmlGpmMetricsGet_t`, whose array is as long as each header has metrics.
#[repr(C)]
struct MetricsGet {
    version: c_uint,
    count: c_uint,
    samples: [SampleHandle; 2],
    metrics: [Metric; 1],
}

impl Session {
    fn sample(&self, target: Device, instance: u32) -> Reply<Sample> {
        let gpu = self.gpu(target)?;
        if gpu.cuda.0 < 9 || !gpu.in_mig_mode() {
            return Err(NOT_SUPPORTED);
        }
        let inside: Vec<_> = gpu
            .devices
            .iter()
            .filter(|mig| mig.gi == instance)
            .collect();
        if inside.is_empty() {
            return Err(INVALID_ARGUMENT);
        }
        let running = |uuid: &str| {
            self.folder
                .running_on(uuid)
                .is_ok_and(|all| !all.is_empty())
        };
        let is_busy = inside.iter().any(|mig| running(&mig.uuid));
        let told = self.fault(target)?.utilization;
        Ok(Sample {
            place: (gpu.uuid.clone(), instance),
            at: Instant::now(),
            percent: told.unwrap_or(97 * u32::from(is_busy)),
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpmSampleAlloc(out: *mut SampleHandle) -> c_int {
    let sample = Box::into_raw(Box::new(None));
    // SAFETY: the caller vouches for `out`.
    code(unsafe { copy::put(out, sample) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpmSampleFree(sample: SampleHandle) -> c_int {
    if !sample.is_null() {
        // SAFETY: the caller has it from nvmlGpmSampleAlloc, and uses it no more.
        drop(unsafe { Box::from_raw(sample) });
    }
    code(Ok(()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpmMigSampleGet(
    handle: Handle,
    instance: c_uint,
    sample: SampleHandle,
) -> c_int {
    let taken = LIBRARY.call("nvmlGpmMigSampleGet", &device(handle), |session, target| {
        session.sample(target, instance)
    });
    code(taken.and_then(|taken| {
        // SAFETY: the caller has it from nvmlGpmSampleAlloc.
        let place = unsafe { sample.as_mut() }.ok_or(INVALID_ARGUMENT)?;
        *place = Some(taken);
        Ok(())
    }))
}

/// What happened between two samples of one place.
fn between(first: Option<&Sample>, second: Option<&Sample>) -> Reply<f64> {
    let (Some(first), Some(second)) = (first, second) else {
        return Err(INVALID_ARGUMENT);
    };
    if first.place != second.place {
        return Err(INVALID_ARGUMENT);
    }
    if second.at.duration_since(first.at) <= INTERVAL {
        return Err(NO_DATA);
    }
    Ok(f64::from(first.percent.max(second.percent)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpmMetricsGet(request: *mut MetricsGet) -> c_int {
    let entered = LIBRARY.enter("nvmlGpmMetricsGet", &Target::Node);
    // SAFETY: the caller vouches for it, and for its samples.
    let answer = |_| unsafe {
        let request = request.as_mut().ok_or(INVALID_ARGUMENT)?;
        if request.version != 1 || request.count != 1 {
            return Err(INVALID_ARGUMENT);
        }
        let [first, second] = request.samples;
        let told = match request.metrics[0].id {
            GRAPHICS_UTIL => between(
                first.as_ref().and_then(Option::as_ref),
                second.as_ref().and_then(Option::as_ref),
            ),
            _ => Err(NOT_SUPPORTED),
        };
        let metric = &mut request.metrics[0];
        metric.returned = told.err().unwrap_or(0);
        metric.value = told.unwrap_or(0.0);
        metric.names = [std::ptr::null(); 3];
        Ok(())
    };
    code(entered.and_then(answer))
}
