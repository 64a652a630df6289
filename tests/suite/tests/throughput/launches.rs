//! Launches in all three ways by four users, a third of them killed at random instants:
//! no two programs ever meet on a device, and a launch without a device is told so.

use getgpu_tests::storm::{Ways, storm};
use harness::size;

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
