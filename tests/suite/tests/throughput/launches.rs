//! Launches in all three ways by four users, a third of them killed at random instants:
//! no two programs ever meet on a device, and a launch without a device is told so.

use getgpu_tests::listing;
use getgpu_tests::storm::{Ways, storm};
use harness::{Sandbox, Signal, size, wait};

#[test]
fn launches_on_fifty_six_devices_never_meet() {
    let _turn = crate::GROUPS.enter(module_path!());
    storm(
        "a100x8",
        Ways::Ours,
        size(300, 5000) as u64,
        size(3000, 300) as u64,
        1,
    );
}

#[test]
fn launches_on_seven_devices_never_meet() {
    let _turn = crate::GROUPS.enter(module_path!());
    storm(
        "a100x1",
        Ways::Ours,
        size(300, 5000) as u64,
        size(300, 0) as u64,
        2,
    );
}

#[test]
fn programs_that_nobody_wrapped_never_meet() {
    let _turn = crate::GROUPS.enter(module_path!());
    storm(
        "a100x8",
        Ways::Unwrapped,
        size(200, 2000) as u64,
        size(3000, 600) as u64,
        3,
    );
}

#[test]
fn a_killed_programs_device_is_free_for_the_next() {
    let _turn = crate::GROUPS.enter(module_path!());
    let sandbox = Sandbox::new("mig4");
    let uuids = sandbox.uuids();
    for _ in 0..25 {
        let program = sandbox
            .command("cudawrap")
            .args(["--", "sim-cuda", "--run", "forever"])
            .spawn();
        sandbox.until_running(1);
        program.signal(Signal::SIGKILL);
        program.wait();
        let count = || listing::free_devices(&sandbox);
        wait::until("the device is free again", || {
            count() == uuids.len().to_string()
        });
    }
    sandbox.assert_exclusive();
}
