use super::*;

/// The numbers are from /proc/driver/nvidia-caps/mig-minors, as NVIDIA's MIG user guide prints it
/// ("gpu0/gi0/access 3" to "gpu31/gi14/ci7/access 4322").
#[test]
fn a_mig_device_needs_the_capabilities_of_its_two_instances() {
    #[rustfmt::skip]
    let cases = [
        ("the first", (0, 0, 0), ["gpu0/mig/gi0/access", "gpu0/mig/gi0/ci0/access"], [3, 4]),
        ("another compute instance", (0, 0, 7), ["gpu0/mig/gi0/access", "gpu0/mig/gi0/ci7/access"], [3, 11]),
        ("another GPU instance", (0, 1, 0), ["gpu0/mig/gi1/access", "gpu0/mig/gi1/ci0/access"], [12, 13]),
        ("another GPU", (1, 0, 0), ["gpu1/mig/gi0/access", "gpu1/mig/gi0/ci0/access"], [138, 139]),
        ("the last", (31, 14, 7), ["gpu31/mig/gi14/access", "gpu31/mig/gi14/ci7/access"], [4314, 4322]),
    ];
    for (name, (gpu, gi, ci), files, minors) in cases {
        let found = capabilities(gpu, gi, ci);
        let wanted = files.map(|file| format!("/proc/driver/nvidia/capabilities/{file}"));
        assert_eq!(found.each_ref().map(|one| one.minor), minors, "{name}");
        assert_eq!(found.map(|one| one.file), wanted, "{name}");
    }
}

#[test]
fn the_driver_says_which_node_a_capability_has() {
    #[rustfmt::skip]
    let cases = [
        ("as the driver writes it", "DeviceFileMinor: 12\nDeviceFileMode: 256\nDeviceFileModify: 1\n", Some(12)),
        ("in another order", "DeviceFileMode: 256\nDeviceFileMinor:\t12\n", Some(12)),
        ("another line's number", "DeviceFileMode: 256\n", None),
        ("no number", "DeviceFileMinor: none\n", None),
        ("no file", "", None),
    ];
    for (name, text, minor) in cases {
        assert_eq!(minor_in(text), minor, "{name}");
    }
}

#[test]
fn only_nvidia_with_a_number_is_the_node_of_a_gpu() {
    let gpus = ["nvidia0", "nvidia9", "nvidia12"];
    let others = [
        "nvidia",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia-caps",
        "nvidia0p1",
        "xnvidia0",
        "0",
    ];
    assert!(gpus.iter().all(|name| is_gpu_node(OsStr::new(name))));
    assert!(!others.iter().any(|name| is_gpu_node(OsStr::new(name))));
}
