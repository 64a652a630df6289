//! Hundreds of calls at once: each device is handed out once, and every other call is told
//! that none is free.

use std::time::Duration;

use getgpu_tests::{assert_devices, somebody};
use harness::Sandbox;

#[test]
fn three_hundred_at_once_get_all_56_devices_and_none_twice() {
    let _turn = crate::GROUPS.enter(module_path!());
    let sandbox = Sandbox::new("a100x8");
    let start = |n: u32| {
        if n.is_multiple_of(2) {
            sandbox.words("getgpu --for=600")
        } else {
            somebody(&sandbox, &["--for=600"])
        }
    };
    let running: Vec<_> = (0..300)
        .map(|n| start(n).limit(Duration::from_secs(120)).spawn())
        .collect();
    let outcomes: Vec<_> = running.into_iter().map(harness::Running::wait).collect();
    let given: Vec<String> = outcomes
        .iter()
        .filter(|o| o.code() == Some(0))
        .map(|o| o.line())
        .collect();
    assert_devices(&given, &sandbox.uuids());
    let refused: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.code() != Some(0))
        .collect();
    assert_eq!(refused.len(), 244);
    for outcome in refused {
        // The first ones look for 0.3 s whether a reservation of theirs lingers.
        outcome.refuses(1, "no free device: ");
        assert!(
            outcome.stderr.contains("56 of 56 in use (reserved 56)")
                || outcome.stderr.contains("waiting"),
            "{outcome:#?}"
        );
    }
    assert_eq!(sandbox.holders().len(), 56);
    sandbox
        .words("getgpu --release-all")
        .limit(Duration::from_secs(60))
        .run()
        .exits(0);
    sandbox.assert_clean(Duration::ZERO);
}
