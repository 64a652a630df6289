//! Launches in all three ways by four users, a third of them killed at random instants:
//! no two programs ever meet on a device, and a launch without a device is told so.

use getgpu_tests::storm::{Ways, storm};
use harness::size;

/// As much in the full size, the seed last.
#[track_caller]
fn launch(node: &str, ways: Ways, launches: [usize; 2], least: [usize; 2], seed: u64) {
    let _turn = harness::turn();
    let [launches, least] = [launches, least].map(|[reduced, full]| size(reduced, full) as u64);
    storm(node, ways, launches, least, seed);
}

#[test]
fn launches_on_fifty_six_devices_never_meet() {
    launch("a100x8", Ways::Ours, [300, 5000], [3000, 300], 1);
}

#[test]
fn launches_on_seven_devices_never_meet() {
    launch("a100x1", Ways::Ours, [300, 5000], [300, 0], 2);
}

#[test]
fn programs_that_nobody_wrapped_never_meet() {
    launch("a100x8", Ways::Unwrapped, [200, 2000], [3000, 600], 3);
}
