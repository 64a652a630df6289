//! Shares inside a reservation or a lease are counted within it and never leave it.

use std::time::Duration;

use getgpu_tests::{free_again, listing};
use harness::Sandbox;
use harness::skip::{self, Need};

#[test]
fn shares_of_a_reservation_are_counted_inside_it() {
    let sandbox = Sandbox::new("mig4");
    let script = "for i in 1 2; do cudawrap --share 1/2 -- sim-cuda --max 2 --until-file go & done; \
                  until [ $(ls $SIM_NODE/running | grep -vc gate) = 2 ]; do sleep 0.01; done; \
                  cudawrap --share 1/2 -- true; echo $?; touch go; wait; cudawrap --share 1/2 -- true; echo $?";
    for around in ["bash", "cudawrap -- bash"] {
        let reserve = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); ";
        let leased = if around == "bash" { reserve } else { "" };
        let script = format!("{leased}{script}");
        let file = sandbox.file("work/script", &script, 0o755);
        // The files of programs that are over go only when somebody looks at their
        // device.
        let line = format!("rm -f go $SIM_NODE/running/*; {around} {}", file.display());
        let outcome = sandbox.shell("bash", &line).run();
        let codes: Vec<&str> = outcome.exits(0).told();
        assert_eq!(codes, ["75", "0"], "{outcome:#?}");
        assert!(sandbox.collisions().is_empty());
        free_again(&sandbox);
    }
}

/// The second call finds the first one's part beside it, and not around it.
#[test]
fn shares_that_getgpu_prints_inside_a_reservation_stand_beside() {
    #[rustfmt::skip]
    let cases = [
        ("--hold", "1/2"), ("--hold", "2G"), ("--for=60", "1/2"), ("--tag x --hold=0", "1/2"),
    ];
    for (hold, share) in cases {
        if hold.ends_with("=0") && skip::lacks(&[Need::Root]) {
            continue;
        }
        let sandbox = Sandbox::new("mig4");
        let script = format!(
            "export CUDA_VISIBLE_DEVICES=$(getgpu {hold}); \
             for i in 1 2; do CUDA_VISIBLE_DEVICES=$(getgpu --share {share}) sim-cuda --max 2 --until-file go & \
             until [ $(grep -c start $SIM_NODE/runs.log) = $i ]; do sleep 0.01; done; done; \
             getgpu --share {share}; echo $?; touch go; wait"
        );
        let outcome = sandbox.shell("bash", &script).run();
        assert_eq!(outcome.exits(0).told(), ["1"], "{outcome:#?}");
        assert!(sandbox.collisions().is_empty());
    }
}

#[test]
fn shares_of_a_reservation_taken_at_one_instant_all_fit() {
    let sandbox = Sandbox::new("h200x1");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); \
                  for i in $(seq 16); do (until [ -e gate ]; do :; done; \
                  exec cudawrap --share 1/16 -- sh -c 'until [ -e go ]; do sleep 0.05; done' || echo none) & done; \
                  touch gate; \
                  for i in $(seq 600); do n=$(getgpu --list --json | grep -o '\"kind\":\"lease\"' | wc -l); [ $n -lt 16 ] || break; done; \
                  echo $n; touch go; wait";
    let shell = sandbox.shell("bash", script);
    let outcome = shell.limit(Duration::from_secs(60)).run();
    outcome.exits(0).says(&[]).prints("16\n");
}

#[test]
fn two_shares_of_one_caller_on_one_device_do_not_meet() {
    let sandbox = Sandbox::new("h200x1");
    // The programs live longer than a holder's longest pause, so that it sees them also
    // where everything is slow. Both halves are of one script and on one device: once
    // reserved below two subshells, once by the script itself.
    for start in [
        "for i in 1 2; do ( CUDA_VISIBLE_DEVICES=$(getgpu -q --share 1/2) exec cudawrap -- sim-cuda --max 2 --until-file go ) & done",
        "a=$(getgpu -q --share 1/2); b=$(getgpu -q --share 1/2); \
         for d in $a $b; do CUDA_VISIBLE_DEVICES=$d cudawrap -- sim-cuda --max 2 --until-file go & done",
    ] {
        let script = format!(
            "rm -f go $SIM_NODE/running/*; {start}; until [ $(ls $SIM_NODE/running | grep -vc gate) = 2 ]; do sleep 0.01; done; \
             getgpu --list --json; sleep 1.5; touch go; wait"
        );
        let outcome = sandbox.shell("bash", &script).run();
        let mut lines = outcome.exits(0).says(&[]).stdout.lines();
        let json = lines.find(|line| line.starts_with('{')).unwrap();
        let listing: serde_json::Value = serde_json::from_str(json).unwrap();
        let leases = listing::shares(&listing["devices"][0], "lease");
        assert_eq!(leases, [0.5, 0.5], "{listing}");
        sandbox.assert_clean();
    }
}

#[test]
fn a_share_of_a_share_stays_inside_it() {
    let sandbox = Sandbox::new("h200x1");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold); \
                  for i in 1 2; do cudawrap --share 1/2 -- sim-cuda --max 4 --until-file go & done; \
                  until [ $(ls $SIM_NODE/running | grep -vc gate) = 2 ]; do sleep 0.01; done; \
                  cudawrap --share 1/2 -- true; echo $?; cudawrap -- true; echo $?; getgpu; \
                  env -u CUDA_VISIBLE_DEVICES getgpu --count-free --share 1/2; touch go; wait";
    let outcome = sandbox.shell("bash", script).run();
    let lines: Vec<&str> = outcome.exits(0).told();
    // Both parts of the part are in use, all of it is printed again, the other half is free.
    let found = (&lines[..2], lines[2].len(), lines[3]);
    assert_eq!(found, (&["75", "75"][..], 40, "1"), "{outcome:#?}");
    sandbox.assert_clean();
}

/// The programs inside inherit the descriptors of the lease around theirs, which show its units.
#[test]
fn a_share_inside_a_lease_is_listed_as_its_own_part() {
    for (around, parts) in [
        ("cudawrap --share 1/2 --", [0.125, 0.125, 0.5]),
        ("cudawrap --", [0.25, 0.25, 1.0]),
    ] {
        let sandbox = Sandbox::new("h200x1");
        let script = "for i in 1 2; do cudawrap --share 1/4 -- sim-cuda --max 4 --until-file go & done; \
                      until [ $(ls $SIM_NODE/running | grep -vc gate) = 2 ]; do sleep 0.01; done; \
                      getgpu --list --json; touch go; wait";
        let file = sandbox.file("work/script", script, 0o755);
        let line = format!("{around} bash {}", file.display());
        let outcome = sandbox.shell("bash", &line).run();
        let text = outcome.exits(0).says(&[]).told();
        let listed: serde_json::Value = serde_json::from_str(text[0]).unwrap();
        let mut shares = listing::shares(&listed["devices"][0], "lease");
        shares.sort_by(f64::total_cmp);
        assert_eq!(shares, parts, "{around}: {listed}");
        sandbox.assert_clean();
    }
}

/// Inside a part the figures follow the units that are held; what the user set stays.
#[test]
fn frameworks_are_told_what_a_share_of_a_share_is() {
    let sandbox = Sandbox::new("mig4");
    let show = "sh -c 'echo $TF_FORCE_GPU_ALLOW_GROWTH $XLA_PYTHON_CLIENT_MEM_FRACTION'";
    #[rustfmt::skip]
    let cases = [
        ("cudawrap --share 1/2 -- cudawrap --share 1/2 --", "0.225"),
        ("export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold) \
          XLA_PYTHON_CLIENT_MEM_FRACTION=0.45; cudawrap --share 1/2 --", "0.225"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION=0.3 cudawrap --share 1/2 -- cudawrap --share 1/2 --", "0.3"),
        ("cudawrap --share 1/2 -- cudawrap --", "0.45"),
    ];
    for (start, fraction) in cases {
        let outcome = sandbox.shell("bash", &format!("{start} {show}")).run();
        outcome.prints(&format!("true {fraction}\n"));
    }
    sandbox.assert_clean();
}

#[test]
fn shares_inside_a_reservation_can_be_waited_for() {
    let sandbox = Sandbox::new("mig4");
    for script in [
        "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); for i in 1 2 3 4 5 6; do \
         cudawrap -q --share 1/2 --wait -- sim-cuda --max 2 --run 0.2 & done; wait",
        "cudawrap -- bash -c 'for i in 1 2 3 4 5 6; do cudawrap -q --share 1/2 --wait -- sim-cuda --max 2 --run 0.2 & done; wait'",
    ] {
        let before = sandbox.runs().len();
        sandbox.shell("bash", script).run().exits(0).says(&[]);
        assert_eq!(sandbox.runs().len() - before, 6);
        assert!(sandbox.collisions().is_empty());
    }
}
