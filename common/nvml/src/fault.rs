//! NVML's return codes (nvmlReturn_t, nvml.h) as the project treats them: which call, on
//! what, which code. A fault of one device never stops the others; which codes are worth
//! asking again is decided here.

use nvml_wrapper::error::NvmlError;

/// A call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The function, without its `nvml` prefix.
    pub call: &'static str,
    /// The code of nvml.h; 0 where the wrapper gave up, or the answer cannot be used.
    pub code: u32,
    text: String,
}

/// NVML_ERROR_NOT_SUPPORTED
pub const NOT_SUPPORTED: u32 = 3;
/// NVML_ERROR_NO_PERMISSION
pub const NO_PERMISSION: u32 = 4;
/// NVML_ERROR_NOT_FOUND
pub const NOT_FOUND: u32 = 6;
/// NVML_ERROR_INSUFFICIENT_SIZE
pub const INSUFFICIENT_SIZE: u32 = 7;
/// NVML_ERROR_DRIVER_NOT_LOADED
pub const DRIVER_NOT_LOADED: u32 = 9;
/// NVML_ERROR_FUNCTION_NOT_FOUND; also stands for a symbol that the library does not
/// have.
pub const FUNCTION_NOT_FOUND: u32 = 13;
/// NVML_ERROR_GPU_IS_LOST
pub const GPU_IS_LOST: u32 = 15;
/// NVML_ERROR_RESET_REQUIRED
pub const RESET_REQUIRED: u32 = 16;
/// NVML_ERROR_LIB_RM_VERSION_MISMATCH
pub const VERSION_MISMATCH: u32 = 18;
/// NVML_ERROR_ARGUMENT_VERSION_MISMATCH
pub const ARGUMENT_VERSION_MISMATCH: u32 = 25;
/// NVML_ERROR_GPU_NOT_FOUND
pub const GPU_NOT_FOUND: u32 = 28;
/// NVML_ERROR_UNKNOWN
pub const UNKNOWN: u32 = 999;

impl Fault {
    /// A fault from a raw return code.
    pub fn new(call: &'static str, code: u32) -> Self {
        Self {
            call,
            code,
            text: NvmlError::from(code).to_string(),
        }
    }

    /// An answer of NVML's that cannot be used.
    pub fn unusable(call: &'static str, why: impl Into<String>) -> Self {
        Self {
            call,
            code: 0,
            text: why.into(),
        }
    }

    /// A fault that the wrapper reports.
    pub fn from(call: &'static str, error: &NvmlError) -> Self {
        Self {
            call,
            code: code(error),
            text: error.to_string(),
        }
    }

    /// The library lacks this function, or the device this feature.
    pub const fn absent(&self) -> bool {
        matches!(
            self.code,
            NOT_SUPPORTED | FUNCTION_NOT_FOUND | ARGUMENT_VERSION_MISMATCH
        )
    }

    /// A slot without a device, or one that is hidden from us: nothing to report.
    pub const fn empty_slot(&self) -> bool {
        matches!(self.code, 2 | NOT_SUPPORTED | NO_PERMISSION | NOT_FOUND)
    }

    /// How often asking again can help: TIMEOUT twice, IN_USE, MEMORY, NOT_READY and
    /// UNKNOWN once.
    const fn retries(&self) -> u32 {
        match self.code {
            10 => 2,
            19 | 20 | 27 | UNKNOWN => 1,
            _ => 0,
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.call, self.text)?;
        if self.code > 0 {
            write!(f, " (NVML code {})", self.code)
        } else {
            Ok(())
        }
    }
}

/// Calls `ask` again as often as its fault is worth it.
///
/// # Errors
///
/// The fault of the last attempt.
pub fn with_retries<T>(mut ask: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    let mut tried = 0;
    loop {
        match ask() {
            Err(fault) if tried < fault.retries() => tried += 1,
            other => return other,
        }
    }
}

/// Asks the wrapper, likewise; `call` is the function's name without its `nvml` prefix.
///
/// # Errors
///
/// The fault of the last attempt.
pub fn ask<T>(
    call: &'static str,
    mut question: impl FnMut() -> Result<T, NvmlError>,
) -> Result<T, Fault> {
    with_retries(|| question().map_err(|error| Fault::from(call, &error)))
}

/// The code of nvml.h behind a wrapper's error.
fn code(error: &NvmlError) -> u32 {
    use NvmlError as E;
    match error {
        E::UnexpectedVariant(code) => *code,
        E::FailedToLoadSymbol(_) => FUNCTION_NOT_FOUND,
        // The wrapper maps codes to variants one to one; the way back is to find the code
        // whose variant this is.
        _ => (1..=22)
            .chain([UNKNOWN])
            .find(|code| std::mem::discriminant(&E::from(*code)) == std::mem::discriminant(error))
            .unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_wrapper() {
        for number in (1..=30).chain([999]) {
            assert_eq!(code(&NvmlError::from(number)), number);
        }
    }

    #[test]
    fn only_passing_faults_are_asked_again() {
        for (number, calls) in [(15, 1), (4, 1), (10, 3), (999, 2), (19, 2)] {
            let mut asked = 0;
            let _ = with_retries::<()>(|| {
                asked += 1;
                Err(Fault::new("DeviceGetUUID", number))
            });
            assert_eq!(asked, calls, "code {number}");
        }
    }
}
