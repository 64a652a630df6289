//! `--explain` gives the reason why each device was rejected, and what is wrong with each
//! list.

use getgpu_tests::OTHER;
use harness::Sandbox;
use harness::skip::{self, Need};

#[test]
fn every_device_but_the_one_printed_has_a_line_with_its_reason() {
    let sandbox = Sandbox::builder("a100x1")
        .settings("excluded = ['MIG-7a1b2c3d-0001-5abc-8def-000000000009', 'nonsense']")
        .build();
    let uuids = sandbox.uuids();
    let _busy = sandbox.occupy(&uuids[..1], "--run forever");
    sandbox.getgpu(["1"]).run().exits(0);
    let leased = sandbox
        .command("cudawrap")
        .visible(&uuids[2])
        .args(["--", "sim-cuda", "--run", "forever"])
        .spawn();
    sandbox.until_running(2);
    sandbox.faults(&format!(
        "[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\ndevice = '{}'\nreturns = 4\n",
        uuids[3]
    ));
    let outcome = sandbox.getgpu(["--explain", "--no-reserve"]).run();
    let printed = outcome.exits(0).line();
    assert!(uuids[4..].contains(&printed));
    outcome.mentions(&format!(
        "getgpu: {} (GPU 0 MIG device 0): busy: used by pid ",
        uuids[0]
    ));
    outcome.mentions(&format!(
        "getgpu: {} (GPU 0 MIG device 1): reserved for ",
        uuids[1]
    ));
    outcome.mentions(&format!(
        "getgpu: {} (GPU 0 MIG device 2): leased by ",
        uuids[2]
    ));
    outcome.mentions(&format!(
        "getgpu: {} (GPU 0 MIG device 3): unknown: ",
        uuids[3]
    ));
    outcome.mentions("getgpu: excluded list: `nonsense` is not the UUID of a device");
    outcome.mentions("getgpu: excluded list: MIG-7a1b2c3d-0001-5abc-8def-000000000009 does not exist on this node");
    for uuid in uuids[4..].iter().filter(|uuid| **uuid != printed) {
        outcome.mentions(&format!("getgpu: {uuid} (GPU 0 MIG device "));
        outcome.mentions("): free, but another device was chosen");
    }
    assert!(!outcome.stderr.contains(&printed));
    drop(leased);
}

#[test]
fn a_home_that_is_somebody_elses_is_no_reason_to_fail() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let home = sandbox.path("closed");
    std::fs::create_dir_all(home.join(".config/getgpu")).unwrap();
    std::fs::write(home.join(".config/getgpu/config.toml"), "type = 'gpu'\n").unwrap();
    std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    sandbox
        .getgpu(["--no-reserve"])
        .env("HOME", &home)
        .uid(OTHER)
        .run()
        .exits(0);
    // Its owner's own settings count: no whole GPU is here.
    sandbox
        .getgpu(["--no-reserve"])
        .env("HOME", &home)
        .run()
        .exits(3);
}
