//! Hundreds of calls at once: each device is handed out once, and every other call is told
//! that none is free.

use std::time::Duration;

use getgpu_tests::{assert_devices, somebody};
use harness::{Sandbox, Signal, wait};

#[test]
fn three_hundred_at_once_get_fifty_six_devices_and_no_device_twice() {
    let _turn = crate::GROUPS.enter(module_path!());
    let sandbox = Sandbox::new("a100x8");
    let start = |n: u32| {
        if n.is_multiple_of(2) {
            sandbox.getgpu(["--for=600"])
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
        outcome.refuses("getgpu", 1, "no free device: ");
        assert!(
            outcome.stderr.contains("56 of 56 in use (reserved 56)")
                || outcome.stderr.contains("waiting"),
            "{outcome:#?}"
        );
    }
    assert_eq!(sandbox.holders().len(), 56);
    sandbox
        .getgpu(["--release-all"])
        .limit(Duration::from_secs(60))
        .run()
        .exits(0);
    sandbox.assert_clean(Duration::ZERO);
}

#[test]
fn a_crowd_of_shells_with_kills_among_them_never_meets_on_a_device() {
    let _turn = crate::GROUPS.enter(module_path!());
    let sandbox = Sandbox::builder("mig4")
        .settings("linger = '200ms'\nreserve_for = '1s'")
        .build();
    let script = |number: usize| {
        format!(
            "for i in 1 2; do until d=$(getgpu 2>/dev/null); do [ $? = 1 ] || exit 2; sleep 0.05; done; \
             CUDA_VISIBLE_DEVICES=$d sim-cuda --run 0.2 --tag {number}-$i || exit 3; done"
        )
    };
    let shells: Vec<_> = (0..16)
        .map(|number| sandbox.shell("bash", &script(number)).spawn())
        .collect();
    for (number, shell) in shells
        .iter()
        .enumerate()
        .filter(|(number, _)| number % 3 == 0)
    {
        let runs = || sandbox.folder().runs().unwrap().len();
        wait::until("some have run", || runs() > number);
        shell.signal(Signal::SIGKILL);
    }
    let outcomes: Vec<_> = shells.into_iter().map(harness::Running::wait).collect();
    sandbox.assert_clean(Duration::from_secs(5));
    sandbox.assert_exclusive();
    let runs = sandbox.folder().runs().unwrap();
    let ran = |number: usize| {
        let tags = [format!("{number}-1"), format!("{number}-2")];
        tags.map(|tag| runs.iter().filter(|run| run.tag == tag).count())
    };
    for (number, outcome) in outcomes.iter().enumerate() {
        let killed = number.is_multiple_of(3) && outcome.signal() == Some(9);
        assert!(killed || outcome.code() == Some(0), "{number}: {outcome:?}");
        assert!(killed || ran(number) == [1, 1], "{number}: {runs:?}");
    }
}
