//! NVML's return codes and the texts that `nvmlErrorString` has for them.
//! The texts are those of driver 535; codes it does not know are unknown errors.

use std::ffi::CStr;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const UNINITIALIZED: i32 = 1;
pub(crate) const INVALID_ARGUMENT: i32 = 2;
pub(crate) const NOT_SUPPORTED: i32 = 3;
pub(crate) const NO_PERMISSION: i32 = 4;
pub(crate) const NOT_FOUND: i32 = 6;
pub(crate) const INSUFFICIENT_SIZE: i32 = 7;
pub(crate) const DRIVER_NOT_LOADED: i32 = 9;
pub(crate) const FUNCTION_NOT_FOUND: i32 = 13;
pub(crate) const OPERATING_SYSTEM: i32 = 17;
pub(crate) const NO_DATA: i32 = 21;
pub(crate) const ARGUMENT_VERSION_MISMATCH: i32 = 25;
pub(crate) const UNKNOWN: i32 = 999;

/// What a call gives: a value, or a return code other than success.
pub(crate) type Reply<T> = Result<T, i32>;

/// The text of a code.
pub(crate) fn text(code: i32) -> &'static CStr {
    #[rustfmt::skip]
    const TEXTS: [&CStr; 28] = [
        c"Success", c"Uninitialized", c"Invalid Argument", c"Not Supported",
        c"Insufficient Permissions", c"Already Initialized", c"Not Found", c"Insufficient Size",
        c"Insufficient External Power", c"Driver Not Loaded", c"Timeout",
        c"Interrupt Request Issue", c"NVML Shared Library Not Found", c"Function Not Found",
        c"Corrupted infoROM", c"GPU is lost", c"GPU requires reset",
        c"GPU access blocked by the operating system", c"Driver/library version mismatch",
        c"In use by another client", c"Insufficient Memory", c"No data", c"vGPU ECC not supported",
        c"Insufficient Resources", c"Invalid Frequency", c"Argument version mismatch",
        c"Requested functionality has been deprecated", c"System is not in ready state",
    ];
    usize::try_from(code)
        .ok()
        .and_then(|n| TEXTS.get(n))
        .copied()
        .unwrap_or(c"Unknown Error")
}
