//! The GPUs on the PCI bus, as the kernel shows them, without NVML: whether all are still there, as
//! CUDA counts them, and whether one has no driver yet. One that has fallen off reads as ones (PCI
//! Local Bus specification).

use std::path::Path;

/// What reads of a device that is gone have in the place of a vendor.
const NO_VENDOR: [u8; 2] = [0xff, 0xff];

/// Whether every GPU of a node, on which NVML counts so many, is on the bus. False where that
/// cannot be told. The driver has a folder for each, named by its address.
pub fn has_all(count: usize) -> bool {
    has_all_in(
        Path::new("/proc/driver/nvidia/gpus"),
        Path::new("/sys/bus/pci/devices"),
        count,
    )
}

fn has_all_in(of_driver: &Path, of_bus: &Path, count: usize) -> bool {
    let Ok(folder) = std::fs::read_dir(of_driver) else {
        return false;
    };
    let gpus: Vec<_> = folder.flatten().map(|entry| entry.file_name()).collect();
    gpus.len() == count && gpus.iter().all(|address| answers(&of_bus.join(address)))
}

/// Whether a GPU of NVIDIA is on the bus that no driver has taken: at boot, and while the driver is
/// replaced.
pub fn has_one_without_driver() -> bool {
    has_one_without_driver_in(Path::new("/sys/bus/pci/devices"))
}

fn has_one_without_driver_in(of_bus: &Path) -> bool {
    let reads = |device: &Path, name: &str| std::fs::read_to_string(device.join(name));
    let folder = std::fs::read_dir(of_bus).into_iter().flatten().flatten();
    let mut devices = folder.map(|entry| entry.path());
    devices.any(|device| {
        // PCI class 03: display controllers.
        reads(&device, "vendor").is_ok_and(|vendor| vendor.trim() == "0x10de")
            && reads(&device, "class").is_ok_and(|class| class.starts_with("0x03"))
            && !device.join("driver").exists()
    })
}

fn answers(device: &Path) -> bool {
    let config = std::fs::read(device.join("config"));
    config.is_ok_and(|bytes| bytes.get(..2).is_some_and(|vendor| vendor != NO_VENDOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_without_driver_is_one_of_nvidias_that_nothing_has_taken() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("0000:07:00.0");
        std::fs::create_dir(&device).unwrap();
        let has = |vendor: &str, class: &str| {
            std::fs::write(device.join("vendor"), vendor).unwrap();
            std::fs::write(device.join("class"), class).unwrap();
            has_one_without_driver_in(folder.path())
        };
        assert!(has("0x10de\n", "0x030200\n") && has("0x10de\n", "0x030000\n"));
        // Another vendor's, and NVIDIA's sound and NVSwitches.
        assert!(!has("0x1002\n", "0x030000\n") && !has("0x10de\n", "0x040300\n"));
        assert!(!has("0x10de\n", "0x068000\n"));
        std::fs::create_dir(device.join("driver")).unwrap();
        assert!(!has("0x10de\n", "0x030200\n"));
        assert!(!has_one_without_driver_in(&folder.path().join("none")));
    }

    #[test]
    fn a_gpu_that_is_gone_reads_as_ones() {
        let folder = tempfile::tempdir().unwrap();
        let [driver, bus] = ["driver", "bus"].map(|name| folder.path().join(name));
        let gpus = ["0000:07:00.0", "0000:8a:00.0"];
        for gpu in gpus {
            std::fs::create_dir_all(driver.join(gpu)).unwrap();
            std::fs::create_dir_all(bus.join(gpu)).unwrap();
            std::fs::write(bus.join(gpu).join("config"), [0xde, 0x10, 0, 0]).unwrap();
        }
        assert!(has_all_in(&driver, &bus, 2));
        assert!(!has_all_in(&driver, &bus, 3), "NVML counts one more");
        assert!(!has_all_in(&folder.path().join("none"), &bus, 2));
        for config in [&[0xff; 4][..], &[]] {
            std::fs::write(bus.join(gpus[1]).join("config"), config).unwrap();
            assert!(!has_all_in(&driver, &bus, 2), "{config:?}");
        }
    }
}
