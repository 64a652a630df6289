//! How long a hold and a wait may last, and what happens to waiters when a device is
//! drained.

use std::time::Duration;

use getgpu_tests::{OTHER, all_at_once, listing};
use harness::{Outcome, Sandbox, wait};

#[test]
fn a_hold_and_a_wait_last_no_longer_than_the_site_allows() {
    let root = nix::unistd::geteuid().is_root();
    // The hold outlasts the longest wait that the site allows, even on a busy machine.
    let script = "getgpu --hold >/dev/null; getgpu --wait; echo $?; \
        until getgpu --wait=1h; do :; done; echo 0; sleep 60";
    // Root is exempt from max_per_user alone; it may hold without end by --hold=0.
    let others = if root { &[false, true][..] } else { &[false] };
    all_at_once(others, |other| {
        let sandbox = Sandbox::with("h200x1", "max_hold = '4s'\nmax_wait = '300ms'");
        let shell = sandbox.shell("bash", script);
        let shell = if *other { shell.uid(OTHER) } else { shell }.spawn();
        wait::until("it is served", || shell.stdout().ends_with("\n0\n"));
        let said = shell.stdout();
        assert!(said.starts_with("1\n"), "{said}");
        shell.kill();
        wait::until("nothing is held", || !sandbox.locked());
        sandbox.ask("--for 1h").exits(0);
        wait::until("no program came, for as long as one may hold", || {
            !sandbox.locked()
        });
    });
}

#[test]
fn a_waiter_ends_when_all_devices_are_drained() {
    let sandbox = Sandbox::new("h200x1");
    let program = sandbox.leased().spawn();
    sandbox.until_running(1);
    let waiter = sandbox.words("cudawrap --wait -- sim-cuda").spawn();
    wait::until("it waits", || listing::waiting(&sandbox) == 1);
    sandbox.set_settings(&format!("excluded = ['{}']", sandbox.uuids()[0]));
    let what = "no device of the request exists here: 1 excluded";
    waiter.wait().exits(125).mentions(what);
    drop(program);
}

#[test]
fn a_drained_device_is_not_given_to_waiters() {
    let sandbox = Sandbox::new("h200x1");
    sandbox.set_node("driver = '570.133.20'\n[[gpu]]\nmodel = 'H200'\ncount = 2\n");
    let uuids = sandbox.uuids();
    let run = |uuid: &str| {
        let line = format!("cudawrap --gpu {uuid} -- sim-cuda --run forever");
        sandbox.words(&line).spawn()
    };
    let (first, second) = (run(&uuids[0]), run(&uuids[1]));
    sandbox.until_running(2);
    let waiter = sandbox.words("cudawrap --wait -- sim-cuda").spawn();
    let line = "waiting for a device: 2 of 2 in use, 0 ahead of you";
    wait::until("it waits", || waiter.stderr().contains(line));
    sandbox.set_settings(&format!("excluded = ['{}']", uuids[0]));
    // A second later at the latest it is known to who waits.
    std::thread::sleep(Duration::from_millis(1500));
    first.kill();
    let what = "the drained device is left alone";
    wait::throughout(Duration::from_millis(700), what, || sandbox.running() == 1);
    second.kill();
    waiter.wait().exits(0);
    assert_eq!(sandbox.runs().last().unwrap().uuid, uuids[1]);
}

#[test]
fn a_shortened_time_limit_is_reported() {
    let sandbox = Sandbox::with("h200x1", "max_hold = '2s'\nmax_wait = '300ms'");
    let (hold, wait) = (
        "getgpu: reserved for at most 2s, the limit of this node (max_hold)",
        "waiting for at most 0.3s, the limit of this node (max_wait)",
    );
    sandbox.ask("--for 1s").exits(0).says(&[]);
    sandbox.ask("--release-all").exits(0);
    for long in ["--for=1h", "--hold"] {
        sandbox.ask(long).exits(0).says(&[hold]);
        sandbox.ask("--release-all").exits(0);
    }
    let _program = sandbox.occupy(&sandbox.uuids(), "");
    let cut = |outcome: Outcome, program: &str, status: i32| {
        outcome.exits(status);
        let line = format!("{program}: {wait}");
        assert_eq!(outcome.stderr.lines().next(), Some(&*line));
    };
    cut(sandbox.ask("--wait"), "getgpu", 1);
    let leased = sandbox.words("cudawrap --wait=1h -- true").run();
    cut(leased, "cudawrap", 75);
    let short = sandbox.ask("--wait=0.1");
    assert!(!short.exits(1).stderr.contains("max_wait"), "{short:#?}");
    // A device that the variable names is waited for in another way.
    let uuid = &sandbox.uuids()[0];
    let _lease = sandbox.words("cudawrap -- sleep 60").visible(uuid).spawn();
    wait::until("it is leased", || sandbox.locked());
    let named = sandbox.words("cudawrap --wait -- true").visible(uuid);
    cut(named.run(), "cudawrap", 75);
}
