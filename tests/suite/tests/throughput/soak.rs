//! Ordinary traffic under one disturbance after the other, only when asked for: `make soak`.

use getgpu_tests::soak::soak;

#[test]
#[ignore = "takes as long as it is told to"]
fn a_soak_leaves_nothing_behind_and_nothing_grows() {
    let _turn = harness::turn();
    soak();
}
