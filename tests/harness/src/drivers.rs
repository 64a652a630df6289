//! Drivers by name: the versions between which NVML changed what it answers (docs of NVML,
//! and what other readers of it had to mend). A node of one has that driver's library.

use sim_node::Version;

/// One of each kind, the oldest that knows MIG first.
pub const DRIVERS: [&str; 12] = [
    "450.80.02",
    // The last without UUIDs of MIG devices.
    "460.106.00",
    "470.57.02",
    "510.47.03",
    "525.60.13",
    // Wide entries in the lists of processes.
    "535.54.03",
    // Without the third version of these lists.
    "535.98",
    "535.104.05",
    "550.54.15",
    // From here on a program sees several MIG devices.
    "570.133.20",
    // The first for integrated GPUs.
    "580.95.05",
    "590.44.01",
];

/// Whether a driver is of this version or a newer one.
///
/// # Panics
///
/// If one of the two is no version.
pub fn is_from(driver: &str, version: &str) -> bool {
    let number = |text: &str| text.parse::<Version>().expect("a version");
    number(driver) >= number(version)
}
