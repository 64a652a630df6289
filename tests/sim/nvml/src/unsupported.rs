//! Functions of monitoring tools that exist and say NOT_SUPPORTED, as they may on real
//! GPUs. Without them such tools complain about an incompatible driver instead of leaving
//! a field empty.
#![allow(unsafe_code, non_snake_case, reason = "the names are NVIDIA's")]

use crate::codes::NOT_SUPPORTED;
use crate::library::LIBRARY;
use crate::session::Target;
use std::ffi::{c_int, c_void};

/// Only the handle is looked at; by the C calling conventions further arguments do no
/// harm.
macro_rules! unsupported {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(handle: *mut c_void) -> c_int {
            let reply = LIBRARY.call(stringify!($name), &Target::Handle(handle as usize), |_, _| Err::<(), _>(NOT_SUPPORTED));
            reply.err().unwrap_or(NOT_SUPPORTED)
        }
    )*};
}

unsupported! {
    nvmlDeviceGetClockInfo nvmlDeviceGetDecoderUtilization nvmlDeviceGetDisplayActive
    nvmlDeviceGetDisplayMode nvmlDeviceGetDriverModel nvmlDeviceGetDriverModel_v2
    nvmlDeviceGetEncoderUtilization nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetFanSpeed
    nvmlDeviceGetMaxClockInfo nvmlDeviceGetPcieThroughput
    nvmlDeviceGetPerformanceState nvmlDeviceGetPowerManagementLimit
    nvmlDeviceGetProcessUtilization nvmlDeviceGetTemperatureV nvmlDeviceGetTotalEccErrors
}
