//! What lives from the beginning of a soak to its end: a program in each of several ways,
//! a waiter that is never served, a kept reservation, a list on a terminal. If anything
//! grows with time, it grows in these.

use std::time::Duration;

use harness::{Running, Sandbox, wait};

/// Starts them, in a sandbox that has a device of profile 3g.20gb and four of 2g.10gb.
pub(crate) fn start(sandbox: &Sandbox) -> Vec<Running> {
    let hook = crate::hooked::hook(sandbox);
    let shell = |line: &str| {
        let command = sandbox.shell("bash", line).env("HOOK", &hook);
        command.limit(Duration::MAX).spawn()
    };
    let run = "sim-cuda --run forever --tag";
    // Somebody who never heard of the commands.
    let last: Vec<String> = sandbox.uuids().into_iter().rev().take(1).collect();
    let mut all = sandbox.occupy(&last, "--tag r-stranger");
    all.push(shell(&format!(
        "exec cudawrap --profile 3g.20gb -- {run} r-leased"
    )));
    sandbox.until_running(2);
    all.push(shell(&format!(
        "exec cudawrap --profile 3g.20gb --wait -- {run} r-waiting"
    )));
    all.push(shell(&format!(
        "d=$(getgpu --profile 2g.10gb) || exit; CUDA_VISIBLE_DEVICES=$d {run} r-reserved; exit"
    )));
    all.push(shell(
        "getgpu --profile 2g.10gb --hold --tag r-held || exit; read -r _ < <(exec sleep infinity)",
    ));
    all.push(shell(&format!(
        "export CUDAWRAP_PROFILE=2g.10gb; CUDA_INJECTION64_PATH=$HOOK exec {run} r-unwrapped"
    )));
    sandbox.until_running(4);
    wait::until("the reservation is kept", || sandbox.holders().len() == 2);
    wait::until("one waits", || all[2].stderr().contains("ahead of you"));
    if harness::skip::tool("script").is_some() {
        all.push(shell(
            "exec script -qfc 'getgpu --watch=5' /dev/null >/dev/null",
        ));
    } else {
        harness::skip::say("script is not installed: no list on a terminal");
    }
    all
}
