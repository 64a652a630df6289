//! Waiters and a node that is worked on: MIG devices that are made anew, a driver that is gone for
//! a while. What the node had, or may have, is waited for.

use getgpu_tests::{listing, until_none_is_free};
use harness::{Sandbox, wait};

const INIT: &str = "[[rule]]\nfunction = 'nvmlInit_v2'\nreturns = 999\n";
const NO_INSTANCES: &str = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\n";

/// How often NVML was loaded.
fn inits(sandbox: &Sandbox) -> usize {
    let calls = sandbox.calls();
    calls
        .iter()
        .filter(|call| call.function == "nvmlInit_v2")
        .count()
}

/// Until NVML has been loaded so many times more.
fn asked_again(sandbox: &Sandbox, times: usize) {
    let before = inits(sandbox);
    wait::until("it asks again", || inits(sandbox) >= before + times);
}

#[test]
fn a_waiter_outlasts_mig_devices_that_are_made_anew() {
    let sandbox = Sandbox::new("mig4");
    until_none_is_free(&sandbox, &[]);
    let waiter = sandbox.words("getgpu --wait=100 --no-reserve").spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    sandbox.set_node(NO_INSTANCES);
    sandbox.log_calls();
    sandbox.ask("--release-all").exits(0);
    // It has listed the node without any device, and more than once.
    asked_again(&sandbox, 6);
    sandbox.set_node("mig4");
    waiter.wait().exits(0);
}

#[test]
fn a_waiter_outlasts_a_driver_that_fails_for_a_while() {
    let sandbox = Sandbox::new("mig4");
    until_none_is_free(&sandbox, &[]);
    let waiter = sandbox.words("getgpu --wait --no-reserve").spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    sandbox.faults(INIT);
    sandbox.log_calls();
    sandbox.ask("--release-all").exits(0);
    asked_again(&sandbox, 5);
    sandbox.faults("");
    waiter.wait().exits(0);
}

/// What is at the end of a wait is what the node said last.
#[test]
fn a_wait_with_a_limit_ends_with_what_failed() {
    let sandbox = Sandbox::new("mig4");
    until_none_is_free(&sandbox, &[]);
    let waiter = sandbox.words("getgpu --wait=4 --no-reserve").spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    sandbox.faults(INIT);
    sandbox.ask("--release-all").exits(0);
    let ended = waiter.wait();
    ended.mentions("getgpu: NVML Init: ").mentions("; waited 4");
    assert_eq!(ended.code(), Some(3));
}

/// The driver answers, and none of the GPUs that are asked for does yet.
#[test]
fn a_call_that_waits_begins_before_a_gpu_answers() {
    let sandbox = Sandbox::new("mig4");
    sandbox.log_calls();
    for start in [
        "getgpu --wait=100 --no-reserve",
        "getgpu --wait=100 --no-reserve --gpu 0",
        "cudawrap --wait -- sim-cuda",
    ] {
        sandbox.faults("[[rule]]\nfunction = '*'\ngpu = 0\nreturns = 15\n");
        let waiter = sandbox.words(start).spawn();
        asked_again(&sandbox, 2);
        sandbox.faults("");
        waiter.wait().exits(0);
    }
}

/// A driver that is loaded only after the call, as at boot.
#[test]
fn a_call_that_waits_begins_before_the_driver_answers() {
    let sandbox = Sandbox::new("gpus4");
    sandbox.faults(INIT);
    sandbox.log_calls();
    for start in [
        "getgpu --wait=100 --no-reserve",
        "cudawrap --wait -- sim-cuda",
    ] {
        sandbox.faults(INIT);
        let waiter = sandbox.words(start).spawn();
        asked_again(&sandbox, 4);
        sandbox.faults("");
        waiter.wait().exits(0);
    }
    sandbox.faults(INIT);
    let ended = sandbox.ask("--wait=1");
    ended.mentions("getgpu: NVML Init: ").mentions("; waited 1");
    assert_eq!(ended.code(), Some(3));
    sandbox.ask("").refuses(3, "NVML Init: ");
}
