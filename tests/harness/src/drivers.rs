//! Drivers by name: the version that a simulated node says, and the functions that the
//! library of that version did not have. They are those between which NVML changed what
//! it answers (docs of NVML, and what other readers of it had to mend).

use crate::{BEFORE_510, WIDE_PROCESSES};

/// A driver of the simulated nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// As NVML gives it.
    pub version: &'static str,
    /// What [`crate::Builder::hide`] takes out of the library.
    pub hidden: &'static [&'static str],
}

const fn driver(version: &'static str, hidden: &'static [&'static str]) -> Driver {
    Driver { version, hidden }
}

/// One of each kind, the oldest that knows MIG first.
pub const DRIVERS: [Driver; 11] = [
    driver("450.80.02", BEFORE_510),
    // The last without UUIDs of MIG devices.
    driver("460.106.00", BEFORE_510),
    driver("470.57.02", BEFORE_510),
    driver("510.47.03", &[]),
    driver("525.60.13", &[]),
    // Wide entries in the lists of processes.
    driver("535.54.03", WIDE_PROCESSES),
    // Without the third version of these lists.
    driver("535.98", &[]),
    driver("535.104.05", &[]),
    driver("550.54.15", &[]),
    // From here on a program sees several MIG devices.
    driver("570.133.20", &[]),
    driver("590.44.01", &[]),
];
