//! Contexts of simulated programs as the tests of the commands rely on them: a collision is
//! never missed, and nothing is left of a killed program.

use std::panic::catch_unwind;

use harness::{Command, Sandbox};

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
