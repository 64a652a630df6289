//! `--explain` gives the reason why each device was rejected, and what is wrong with each
//! list.

use harness::Sandbox;

#[test]
fn every_device_but_the_one_printed_has_a_line_with_its_reason() {
    let gone = "MIG-7a1b2c3d-0001-5abc-8def-000000000009";
    let sandbox = Sandbox::with("a100x1", &format!("excluded = ['{gone}', 'nonsense']"));
    let uuids = sandbox.uuids();
    let _busy = sandbox.occupy(&uuids[..1], "--run forever");
    sandbox.ask("1").exits(0);
    let leased = sandbox.leased().visible(&uuids[2]).spawn();
    sandbox.until_running(2);
    let rule = "[[rule]]\nfunction = 'nvmlDeviceGetComputeRunningProcesses_v3'\nreturns = 4\n";
    sandbox.faults(&format!("{rule}device = '{}'\n", uuids[3]));
    let outcome = sandbox.ask("--explain --no-reserve");
    let printed = outcome.exits(0).line();
    assert!(uuids[4..].contains(&printed));
    #[rustfmt::skip]
    let reasons = ["busy: used by pid ", "reserved for ", "leased by ", "unknown: "];
    for (number, (uuid, reason)) in uuids.iter().zip(reasons).enumerate() {
        let line = format!("getgpu: {uuid} (GPU 0 MIG device {number}): {reason}");
        outcome.mentions(&line);
    }
    outcome.mentions("getgpu: excluded list: `nonsense` is not the UUID of a device");
    outcome.mentions(&format!(
        "excluded list: {gone} does not exist on this node"
    ));
    for uuid in uuids[4..].iter().filter(|uuid| **uuid != printed) {
        outcome.mentions(&format!("getgpu: {uuid} (GPU 0 MIG device "));
        outcome.mentions("): free, but another device was chosen");
    }
    assert!(!outcome.stderr.contains(&printed));
    drop(leased);
}

#[test]
fn a_device_with_room_for_the_share_is_only_passed_over() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let on = |gpu: usize, share: &str| {
        let line = format!("cudawrap --gpu {gpu} --share {share} -- sim-cuda --run forever");
        sandbox.words(&line).spawn()
    };
    let _programs = [on(0, "1/2"), on(2, "3/4")];
    sandbox.until_running(2);
    let _busy = sandbox.occupy(&uuids[3..], "");
    sandbox.until_running(3);
    let explained = sandbox.ask("--share 1/2 --explain --no-reserve");
    assert_eq!(explained.exits(0).line(), uuids[1], "the least loaded");
    for (gpu, reason) in [
        (
            0,
            "room for this call, but another device was chosen: leased by ",
        ),
        (2, "no room for the share: leased by "),
        (3, "busy: used by pid "),
    ] {
        explained.mentions(&format!("getgpu: {} (GPU {gpu}): {reason}", uuids[gpu]));
    }
}

#[test]
fn inside_a_lease_the_other_program_there_is_named() {
    let sandbox = Sandbox::new("gpus4");
    let script = "cudawrap -n 2 -- bash -c 'cudawrap -- sim-cuda --until-file go & \
                  until [ $(ls $SIM_NODE/running | grep -vc gate) = 1 ]; do sleep 0.01; done; \
                  getgpu --explain --no-reserve; touch go; wait'";
    let outcome = sandbox.shell("sh", script).run();
    let lines = outcome.exits(0).stderr.lines();
    let named: Vec<&str> = lines.filter(|line| line.contains(": leased by ")).collect();
    assert!(
        named.len() == 1 && named[0].contains(", sim-cuda)"),
        "{outcome:#?}"
    );
}
