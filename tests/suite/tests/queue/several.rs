//! A request for several devices gets its turn among smaller ones that come again and again:
//! the oldest keeps what becomes free. What is kept is shown, ends with its waiter at once,
//! and delays no other when the waiter is stopped.

use getgpu_tests::listing;
use harness::{Command, Running, Sandbox, Signal, wait};

use crate::waiters::{leased, line_up};

/// Programs for one device each, again and again, until the sandbox ends them.
fn loops(sandbox: &Sandbox, count: usize) -> Vec<Running> {
    let script = "while :; do cudawrap -q --wait -- sim-cuda --run 0.05 --tag small; done";
    let each = |_| sandbox.shell("bash", script).spawn();
    let loops = (0..count).map(each).collect();
    wait::until("all devices are in use", || {
        listing::json(sandbox)["waiting"].as_u64() > Some(0)
    });
    loops
}

fn many(sandbox: &Sandbox, count: usize, tag: &str) -> Command {
    let line = format!("cudawrap -n {count} --wait=100 -- sim-cuda --run 0.1 --tag {tag}");
    sandbox.words(&line)
}

fn kept(sandbox: &Sandbox) -> usize {
    let listing = listing::json(sandbox);
    let devices = listing::devices(&listing).iter();
    devices.filter(|device| device["state"] == "kept").count()
}

#[test]
fn among_small_requests_that_come_again_and_again_large_ones_get_their_turns() {
    let sandbox = Sandbox::new("gpus4");
    let loops = loops(&sandbox, 5);
    let waiters =
        [4, 3, 4, 2].map(|count| many(&sandbox, count, &format!("large-{count}")).spawn());
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    drop(loops);
    sandbox.assert_exclusive();
}

/// Without persistence mode each GPU takes its time to be attached: a keeper that asks NVML for longer
/// than signs of life are waited for is not taken for stopped.
#[test]
fn a_large_request_gets_its_turn_where_gpus_are_slow() {
    let sandbox = Sandbox::new("gpus4");
    let loops = loops(&sandbox, 5);
    sandbox.faults("latency = { attach_ms = 600 }");
    many(&sandbox, 4, "large").spawn().wait().exits(0);
    let runs = sandbox.runs();
    let small = runs.iter().filter(|run| run.tag == "small").count();
    assert!(small < 150, "{small} were served before it");
    drop(loops);
    sandbox.assert_exclusive();
}

#[test]
fn a_small_request_is_not_kept_waiting_by_large_ones_that_come_again_and_again() {
    let sandbox = Sandbox::new("gpus4");
    let script = "while :; do cudawrap -q -n 4 --wait -- sim-cuda --run 0.05 --tag large; done";
    let each = |_| sandbox.shell("bash", script).spawn();
    let loops: Vec<Running> = (0..3).map(each).collect();
    wait::until("one waits", || listing::waiting(&sandbox) > 0);
    for _ in 0..3 {
        leased(&sandbox, "small", "0.05").run().exits(0);
    }
    drop(loops);
    sandbox.assert_exclusive();
}

/// Three of four devices in use, and a waiter for all four.
fn waiter_for_all(sandbox: &Sandbox) -> (Vec<Running>, Running) {
    let held: Vec<Running> = (0..3).map(|_| sandbox.leased().spawn()).collect();
    sandbox.until_running(3);
    let mut waiters = line_up(sandbox, vec![many(sandbox, 4, "large")]);
    wait::until("one device is kept", || kept(sandbox) == 1);
    (held, waiters.remove(0))
}

#[test]
fn what_is_kept_is_shown_and_left_alone_and_free_as_soon_as_its_waiter_is_gone() {
    let sandbox = Sandbox::new("gpus4");
    let (held, waiter) = waiter_for_all(&sandbox);
    let queue = sandbox.getgpu(["--queue", "--json"]).run().line();
    let queue: serde_json::Value = serde_json::from_str(&queue).expect("JSON");
    assert_eq!(queue[0]["kept"], serde_json::json!({"has": 1, "wanted": 4}));
    sandbox.ask("--queue").exits(0).shows("1 of 4 kept");
    assert_eq!(listing::free_devices(&sandbox), "0");
    let listed = listing::json(&sandbox);
    let mut devices = listing::devices(&listed).iter();
    let device = devices.find(|device| device["state"] == "kept").unwrap();
    assert_eq!(device["holders"][0]["pid"], waiter.pid());
    assert_eq!(device["holders"][0]["kind"], "waiter");
    let refused = sandbox.words("cudawrap -- true").run();
    refused
        .exits(75)
        .mentions("no free device: 4 of 4 in use (");
    refused.mentions("kept for a waiter 1");
    // Shares one after the other would keep it from its waiter.
    let share = sandbox.words("cudawrap --share 1/2 -- true").run();
    share.exits(75).mentions("kept for a waiter 1)");
    // Of those that are in use people are told who has them.
    let explained = sandbox.ask("--share 1/2 --explain");
    let lines = explained.exits(1).stderr.lines();
    let held_lines = lines.filter(|line| line.contains(": no room for the share: leased by "));
    assert_eq!(held_lines.count(), 3, "{explained:#?}");
    let explained = sandbox.ask("--explain");
    explained.exits(1).mentions(&format!(
        ": kept for {} (pid {}, cudawrap): it waits for several devices, or for all of one",
        device["holders"][0]["user"].as_str().expect("a name"),
        waiter.pid()
    ));
    waiter.signal(Signal::SIGKILL);
    waiter.wait();
    assert_eq!(kept(&sandbox), 0);
    sandbox.words("cudawrap -- true").run().exits(0).says(&[]);
    drop(held);
}

#[test]
fn who_names_a_kept_device_has_it() {
    let sandbox = Sandbox::new("gpus4");
    let (held, waiter) = waiter_for_all(&sandbox);
    let listed = listing::json(&sandbox);
    let mut devices = listing::devices(&listed).iter();
    let device = devices.find(|device| device["state"] == "kept").unwrap();
    let uuid = device["uuid"].as_str().unwrap();
    sandbox
        .words("cudawrap -- true")
        .visible(uuid)
        .run()
        .exits(0);
    let share = sandbox.words("cudawrap --share 1/2 -- true").visible(uuid);
    share.run().exits(0);
    let index = device["index"].to_string();
    assert_eq!(sandbox.line(&format!("{index} --for=600")), uuid);
    drop((held, waiter));
}

#[test]
fn a_stopped_waiter_for_several_delays_nobody() {
    let sandbox = Sandbox::new("gpus4");
    let (held, waiter) = waiter_for_all(&sandbox);
    waiter.signal(Signal::SIGSTOP);
    sandbox.words("cudawrap -- true").run().exits(0);
    leased(&sandbox, "small", "0.05").run().exits(0);
    waiter.signal(Signal::SIGCONT);
    wait::until("it goes on", || kept(&sandbox) == 1);
    sandbox.words("cudawrap -- true").run().exits(75);
    for program in held {
        program.kill();
    }
    waiter.wait().exits(0);
    sandbox.assert_exclusive();
}

/// They stand in one queue with it, whose head it is.
#[test]
fn equal_requests_get_what_a_stopped_waiter_for_several_kept() {
    let sandbox = Sandbox::new("gpus4");
    let (held, waiter) = waiter_for_all(&sandbox);
    waiter.signal(Signal::SIGSTOP);
    for program in held {
        program.kill();
    }
    wait::until("all are kept", || kept(&sandbox) == 4);
    sandbox.words("cudawrap -n 4 -- true").run().exits(0);
    // With the looks of a waiter that is not the head alone, this took 21 s.
    sandbox
        .words("cudawrap -n 4 --wait=15 -- true")
        .run()
        .exits(0);
    waiter.signal(Signal::SIGCONT);
    waiter.wait().exits(0);
    sandbox.assert_exclusive();
}

#[test]
fn nothing_is_kept_for_who_wants_a_device_that_is_not_well() {
    let node = "driver = '580.65.06'\n[[gpu]]\nmodel = 'H100-80GB'\ncount = 4\n";
    let sandbox = Sandbox::new(node);
    sandbox.faults("[[health]]\ngpu = 3\nrecovery_action = 1\n");
    let held = sandbox.leased().spawn();
    sandbox.until_running(1);
    let waiters = line_up(
        &sandbox,
        vec![many(&sandbox, 4, "large"), many(&sandbox, 3, "three")],
    );
    wait::until("the second keeps", || kept(&sandbox) == 2);
    for waiter in waiters {
        waiter.kill();
    }
    held.kill();
}
