//! A program that was started without these tools and runs already: its device can be held for it, if
//! nothing else uses that.

use getgpu_tests::{OTHER, free_again, root};
use harness::{Sandbox, wait};

#[test]
fn the_device_of_a_running_program_is_held_for_it() {
    let sandbox = Sandbox::with("gpus4", "linger = '100ms'");
    let uuid = &sandbox.uuids()[1];
    // Started by hand: a script, and the program that it started.
    let script = "sim-cuda --run forever & wait";
    let program = sandbox.shell("bash", script).visible(uuid).spawn();
    sandbox.until_running(1);
    let pid = program.pid();
    let busy = sandbox.ask("1 --hold");
    busy.refuses(1, &format!("not held: {uuid} (GPU 1): busy"));
    assert_eq!(sandbox.line(&format!("1 --hold={pid}")), *uuid);
    let listed = sandbox.ask("--list");
    listed.exits(0).shows("reserved");
    // It goes with the program.
    drop(program);
    free_again(&sandbox);
}

#[test]
fn a_device_that_another_program_uses_too_is_not_held_for_one() {
    let Some(sandbox) = root("gpus4") else { return };
    let uuid = &sandbox.uuids()[0];
    let program = sandbox
        .words("sim-cuda --run forever --max 2")
        .visible(uuid);
    let program = program.spawn();
    sandbox.until_running(1);
    let other = sandbox
        .words("sim-cuda --run forever --max 2")
        .visible(uuid);
    let other = other.uid(OTHER).spawn();
    sandbox.until_running(2);
    let (pid, theirs) = (program.pid(), other.pid());
    let refused = sandbox.ask(&format!("0 --hold={pid}"));
    refused.refuses(1, &format!("not held: {uuid} (GPU 0): busy: also used by "));
    refused.mentions(&format!("(pid {theirs}, sim-cuda)"));
    // Of a process that does not use it nothing is said.
    let sleep = sandbox.words("sleep 1000").spawn();
    let shell = sandbox.ask(&format!("0 --hold={}", sleep.pid()));
    shell.refuses(1, &format!("not held: {uuid} (GPU 0): busy"));
    assert!(!shell.stderr.contains("also used"), "{shell:#?}");
    // An ancestor of both says nothing of whose they are.
    let ancestor = sandbox.ask(&format!("0 --hold={}", std::process::id()));
    ancestor.refuses(1, &format!("not held: {uuid} (GPU 0): busy: also used by "));
    other.kill();
    wait::until("it is the only one", || {
        sandbox.ask(&format!("0 --hold={pid}")).code() == Some(0)
    });
}
