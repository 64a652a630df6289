//! For whom devices are kept beside those who want several: for one that wants all of a device that others
//! share, and not for one that only its own user keeps waiting.

use getgpu_tests::{all_at_once, listing};
use harness::{Running, Sandbox, wait};

use crate::waiters::line_up;

/// Quarters for one program each, again and again, until the sandbox ends them.
fn sharers(sandbox: &Sandbox, count: usize) -> Vec<Running> {
    let script = "while :; do cudawrap -q --share 1/4 --wait -- sim-cuda --run 0.2 --max 4 --tag small; done";
    let each = |_| sandbox.shell("bash", script).spawn();
    let loops = (0..count).map(each).collect();
    wait::until("all quarters are in use", || listing::waiting(sandbox) > 0);
    loops
}

#[test]
fn who_wants_all_of_a_device_gets_it_among_shares_that_come_again_and_again() {
    let sandbox = Sandbox::new("h200x1");
    let loops = sharers(&sandbox, 6);
    for _ in 0..2 {
        let whole = sandbox.words("cudawrap --wait=100 -- sim-cuda --run 0.1 --tag whole");
        whole.run().exits(0);
    }
    drop(loops);
}

/// One device is kept at most: the others go on being shared.
#[test]
fn beside_a_waiter_for_all_of_a_device_the_others_are_shared() {
    let sandbox = Sandbox::new("gpus4");
    let share = "cudawrap --share 1/2 --policy spread -- sim-cuda --run forever --max 2";
    let held: Vec<Running> = (0..4).map(|_| sandbox.words(share).spawn()).collect();
    sandbox.until_running(4);
    let whole = sandbox.words("getgpu --wait=100 --for=600");
    let mut waiters = line_up(&sandbox, vec![whole]);
    let kept = "a shared device is kept";
    wait::until("one is kept", || {
        sandbox.ask("--queue").stdout.contains(kept)
    });
    let mut others = Vec::new();
    for more in 5..8 {
        let share = "cudawrap --share 1/2 -- sim-cuda --run forever --max 2";
        others.push(sandbox.words(share).spawn());
        sandbox.until_running(more);
    }
    let refused = sandbox.words("cudawrap --share 1/2 -- true").run();
    refused.exits(75).mentions("kept for a waiter 1");
    drop(held);
    waiters.remove(0).wait().exits(0);
}

#[test]
fn nothing_is_kept_for_a_user_who_may_not_have_more() {
    let Some(sandbox) = getgpu_tests::root("gpus4") else {
        return;
    };
    sandbox.set_settings("max_per_user = 3");
    let user = |line: &str| sandbox.words(line).uid(getgpu_tests::OTHER);
    let _own: Vec<Running> = (0..2)
        .map(|_| user("cudawrap -- sim-cuda --run forever").spawn())
        .collect();
    let _root = sandbox.leased().spawn();
    sandbox.until_running(3);
    let waiter = user("cudawrap -n 2 --wait=100 -- sim-cuda --run 0.1").spawn();
    wait::until("it stands aside", || {
        waiter.stderr().contains("others are served first")
    });
    assert_eq!(listing::free_devices(&sandbox), "1");
    sandbox.ask("--wanted").exits(1);
}

/// All four can never be free while the shell that waits for them has one.
#[test]
fn nothing_is_kept_for_a_wait_for_what_the_own_shell_holds() {
    let sandbox = Sandbox::new("gpus4");
    let script = "d=$(getgpu --hold) && exec getgpu -n 4 --ignore-grant --wait=100";
    let waiter = sandbox.shell("bash", &format!("{script}; :")).spawn();
    wait::until("it says so", || {
        let said = waiter.stderr();
        said.contains("1 of 4 are held by what this call comes from")
    });
    assert_eq!(listing::free_devices(&sandbox), "3");
}

/// Inside what the shell holds a call waits for what is used there, and is served then.
#[test]
fn a_wait_inside_what_the_own_shell_holds_is_for_what_others_use_there() {
    const HOLD: &str = "export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 4 --hold); . ./inside";
    const LEASE: &str = "cudawrap -n 4 -- bash ./inside";
    let cases = [(HOLD, "3..4"), (HOLD, "4"), (LEASE, "3"), (LEASE, "4")];
    all_at_once(cases, |(around, count)| {
        let sandbox = Sandbox::new("gpus4");
        let inside = format!(
            "for i in 1 2; do cudawrap -- sim-cuda --until-file end & done; \
             until [ -e go ]; do sleep 0.01; done; cudawrap -n {count} --wait=100 -- true"
        );
        sandbox.file("work/inside", &inside, 0o644);
        let waiter = sandbox.shell("bash", around).spawn();
        sandbox.until_running(2);
        sandbox.file("work/go", "", 0o644);
        wait::until("it waits", || waiter.stderr().contains("waiting"));
        sandbox.file("work/end", "", 0o644);
        let outcome = waiter.wait();
        let said = outcome.exits(0).stderr.lines().next();
        let line = "cudawrap: waiting for a device: 2 of 4 in use, 0 ahead of you";
        assert_eq!(said, Some(line), "{around}, -n {count}");
    });
}
