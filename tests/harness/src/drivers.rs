//! Drivers by name: the version that a simulated node says, and the functions that the
//! library of that version did not have. They are those between which NVML changed what
//! it answers (docs of NVML, and what other readers of it had to mend).

use crate::{BEFORE_470, BEFORE_510, BEFORE_535, BEFORE_550, WIDE_PROCESSES, WITHOUT_V3};

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
pub const DRIVERS: [Driver; 12] = [
    driver("450.80.02", BEFORE_470),
    // The last without UUIDs of MIG devices.
    driver("460.106.00", BEFORE_470),
    driver("470.57.02", BEFORE_510),
    driver("510.47.03", BEFORE_535),
    driver("525.60.13", BEFORE_535),
    // Wide entries in the lists of processes.
    driver("535.54.03", WIDE_PROCESSES),
    // Without the third version of these lists.
    driver("535.98", WITHOUT_V3),
    driver("535.104.05", BEFORE_550),
    driver("550.54.15", &[]),
    // From here on a program sees several MIG devices.
    driver("570.133.20", &[]),
    // The first for integrated GPUs.
    driver("580.95.05", &[]),
    driver("590.44.01", &[]),
];

impl Driver {
    /// Whether it is this version or a newer one.
    ///
    /// # Panics
    ///
    /// If one of the two is no version.
    pub fn is_from(&self, version: &str) -> bool {
        let number = |text: &str| text.parse::<sim_node::Version>().expect("a version");
        number(self.version) >= number(version)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{DRIVERS, Driver};

    /// The simulated library and the one that a test installs agree about what is missing.
    #[test]
    fn hidden_functions_are_those_that_the_driver_does_not_have() {
        let some: BTreeSet<&str> = DRIVERS
            .iter()
            .flat_map(|driver| driver.hidden)
            .copied()
            .collect();
        for Driver { version, hidden } in DRIVERS {
            let number = version.parse().unwrap();
            let missing = |name: &&str| !sim_nvml::functions::exists(number, name);
            let expected: BTreeSet<&str> = some.iter().copied().filter(missing).collect();
            let hidden: BTreeSet<&str> = hidden.iter().copied().collect();
            assert_eq!(hidden, expected, "{version}");
        }
    }
}
