//! Names under which calls reserve, and devices that calls name, in the queue: a sibling's
//! reservation ends the wait of who asks for the same, and who names a kept device has it.

use std::time::Duration;

use getgpu_tests::listing;
use harness::{Running, Sandbox, Signal, wait};

use crate::waiters::line_up;

/// Two calls of one user with one tag wait, and one device becomes free: one reserves it, and the
/// other prints the same, also where the user may have no more devices.
#[test]
fn calls_with_one_tag_are_served_by_one_reservation() {
    for settings in ["", "max_per_user = 1"] {
        let sandbox = Sandbox::with("a100x1", settings);
        let mut others = sandbox.occupy(&sandbox.uuids(), "--memory 100");
        let call = || sandbox.words("getgpu --tag x --wait --for=600");
        let waiters = line_up(&sandbox, vec![call(), call()]);
        drop(others.pop());
        let limit = Duration::from_secs(20);
        let mut told = Vec::new();
        for mut waiter in waiters {
            wait::until_within(limit, "both are served", || waiter.is_over());
            told.push(waiter.wait().line());
        }
        assert_eq!(told[0], told[1], "{settings}");
    }
}

/// One that joined behind another one. What is kept for a waiter that wants several is nothing to it.
#[test]
fn who_waits_for_a_named_device_behind_another_has_it_although_it_is_kept() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let on = |uuid: &String| sandbox.leased().visible(uuid).spawn();
    let mut held: Vec<Running> = uuids.iter().map(on).collect();
    sandbox.until_running(4);
    let named = || {
        let words = "cudawrap --wait=60 -- sim-cuda --run 0.1 --tag named";
        sandbox.words(words).visible(&uuids[0])
    };
    let large = sandbox.words("cudawrap -n 4 --wait=60 -- sim-cuda --tag large");
    let mut waiters = line_up(&sandbox, vec![large, named(), named()]);
    let _large = waiters.remove(0);
    held.remove(0).kill();
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    assert_eq!(listing::waiting(&sandbox), 1, "the large one still waits");
}

/// What is reserved for a caller while a program of its waits is seen by that program.
#[test]
fn a_waiter_sees_a_reservation_of_its_own_that_began_meanwhile() {
    let sandbox = Sandbox::new("gpus4");
    let both = sandbox.uuids()[..2].join(",");
    let held = sandbox.words("cudawrap -n 2 -- sim-cuda --run forever");
    let held = held.visible(&both).spawn();
    sandbox.until_running(1);
    let one = sandbox.words("cudawrap -n 1 --wait=60 -- sim-cuda --tag one");
    let waiter = line_up(&sandbox, vec![one.visible(&both)]).remove(0);
    // It would have one of them at once.
    waiter.signal(Signal::SIGSTOP);
    held.kill();
    wait::until("they are free", || sandbox.running() == 0);
    let reserve = sandbox.getgpu(["-n", "2", "--for=600"]).visible(&both);
    reserve.run().exits(0);
    waiter.signal(Signal::SIGCONT);
    let began = std::time::Instant::now();
    waiter.wait().exits(0);
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// Devices that one program cannot use together are no use to it after a wait either.
#[test]
fn what_a_wait_brings_is_checked_for_use_together() {
    let sandbox = Sandbox::new("mixed");
    let mut others = sandbox.occupy(&sandbox.uuids(), "--memory 100");
    let words = "cudawrap --type any -n 2 --wait=60 -- true";
    let waiter = line_up(&sandbox, vec![sandbox.words(words)]).remove(0);
    // The whole GPUs are behind them.
    drop(others.drain(..3));
    waiter.wait().exits(125).mentions("2 MIG devices: ");
}

/// A share by size that is all of one's own part is leased past the queue, as a fraction is.
#[test]
fn a_size_that_is_all_of_ones_own_part_does_not_queue() {
    let sandbox = Sandbox::new("h200x1");
    let part = sandbox.line("--share 1/2 --for=600");
    let listed = listing::json(&sandbox);
    let memory = listing::device(&listed, &part)["memory_total"].as_u64();
    let size = format!("--share {}KiB", (memory.unwrap() / 2) >> 10);
    let run = |words: &str| {
        sandbox
            .words(&format!("cudawrap {size} {words}"))
            .visible(&part)
    };
    let first = run("-- sim-cuda --run forever").spawn();
    sandbox.until_running(1);
    let waiter = line_up(&sandbox, vec![run("--wait=60 -- true")]).remove(0);
    run("-- true")
        .run()
        .refuses(75, &format!("{part}: in use by "));
    first.kill();
    waiter.wait().exits(0);
}
