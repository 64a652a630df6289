//! Contexts of simulated programs as the tests of the commands rely on them: a collision is
//! never missed, and nothing is left of a killed program.

use std::collections::HashMap;
use std::panic::catch_unwind;

use harness::{Command, Sandbox, wait};

fn program(sandbox: &Sandbox, uuid: &str, flags: &str) -> Command {
    let command = sandbox.command("sim-cuda").visible(uuid);
    command.args(flags.split_whitespace())
}

#[test]
fn the_second_on_a_device_collides_until_the_first_is_killed() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    let run = |number: usize, flags: &str| program(&sandbox, &uuids[number], flags).run();
    let first = sandbox.occupy(&uuids[..1], "").remove(0);
    sandbox.assert_exclusive();
    let end = format!(" with {}\n", first.pid());
    let second = run(0, "");
    second
        .exits(99)
        .shows(&format!("COLLISION {} ", uuids[0]))
        .shows(&end);
    run(1, "").exits(0);
    assert_eq!(sandbox.collisions().len(), 1);
    assert!(catch_unwind(|| sandbox.assert_exclusive()).is_err());
    drop(first);
    run(0, "").exits(0);
    assert_eq!(sandbox.running(), 0);
    // Up to the smallest number that one of them says.
    let two = sandbox.occupy(&uuids[..1], "--max 2");
    let shared = sandbox.occupy(&uuids[..1], "--shared");
    run(0, "--shared").exits(99);
    drop(two);
    run(0, "").exits(99);
    run(0, "--shared").exits(0);
    drop(shared);
}

#[test]
fn fifty_racing_for_seven_devices_give_one_context_each() {
    let sandbox = Sandbox::new("a100x1");
    let uuids = sandbox.uuids();
    let start = |n: usize| program(&sandbox, &uuids[n % 7], "--until-file end").spawn();
    let programs: Vec<_> = (0..50).map(start).collect();
    let arrived = || sandbox.runs().len() + sandbox.collisions().len();
    wait::until("all have arrived", || arrived() == 50);
    sandbox.file("work/end", "", 0o644);
    let mut codes: HashMap<Option<i32>, u32> = HashMap::new();
    for program in programs {
        *codes.entry(program.wait().code()).or_default() += 1;
    }
    assert_eq!(codes, HashMap::from([(Some(0), 7), (Some(99), 43)]));
    assert_eq!(sandbox.collisions().len(), 43);
}

/// A library that could open no file of a context took its program for gone, and a device
/// in use was given away.
#[test]
fn whoever_has_few_descriptors_sees_every_context_or_fails() {
    let sandbox = Sandbox::new("mig4");
    let _strangers = sandbox.occupy(&sandbox.uuids(), "");
    for number in 3..=24 {
        let limit = number.to_string();
        let limited = |words: &[&str]| {
            let command = sandbox.command("launch").args(["--nofile", &limit]);
            command.args(words).run().code()
        };
        for words in [&["getgpu", "--no-reserve"][..], &["cudawrap", "--", "true"]] {
            assert_ne!(limited(words), Some(0), "{number} descriptors: {words:?}");
        }
    }
}
