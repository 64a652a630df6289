//! `getgpu --wanted` tells a program that has a device whether another call waits. What waits
//! below that program, or for a limit of its user, is no reason to make room.

use getgpu_tests::{as_other_user, bytes, listing};
use harness::skip::Need;
use harness::{Running, Sandbox, wait};

use crate::waiters::{leased, line_up};

/// Waits until the test says so, and then asks.
const ASK: &str = "until [ -e $HOME/go ]; do sleep 0.02; done; getgpu --wanted; echo $?";

/// How a shell with that script comes to a device.
const WAYS: [&str; 4] = [
    "cudawrap -- sh -c \"$0\"",
    "CUDA_VISIBLE_DEVICES=$(getgpu) sh -c \"$0\"",
    "CUDA_VISIBLE_DEVICES=$(getgpu --hold) && export CUDA_VISIBLE_DEVICES && eval \"$0\"",
    "CUDA_VISIBLE_DEVICES=$(setsid sh -c 'getgpu --for 60; :') sh -c \"$0\"",
];

/// A shell that asks, and has the only device.
fn start(sandbox: &Sandbox, way: &str, script: &str) -> Running {
    let asking = sandbox.shell("bash", way).args([script]).spawn();
    wait::until("it has the device", || {
        listing::free_devices(sandbox) == "0"
    });
    asking
}

/// What a shell tells that has come to its device in one of these ways.
fn told(way: &str, script: &str, waiters: usize) -> String {
    let sandbox = Sandbox::new("h200x1");
    let asking = start(&sandbox, way, script);
    let commands = (0..waiters).map(|number| leased(&sandbox, &number.to_string(), "0"));
    let waiting = line_up(&sandbox, commands.collect());
    sandbox.file("home/go", "", 0o644);
    let outcome = asking.wait();
    outcome.exits(0).says(&[]);
    for waiter in waiting {
        waiter.wait().exits(0);
    }
    outcome.stdout.clone()
}

#[test]
fn a_program_is_told_whether_a_call_waits_however_it_came_to_its_device() {
    for way in WAYS {
        assert_eq!(told(way, ASK, 0), "no call is waiting\n1\n", "{way}");
        assert_eq!(told(way, ASK, 2), "2 calls are waiting\n0\n", "{way}");
    }
    let quiet = ASK.replace("--wanted", "-q --wanted");
    assert_eq!(told(WAYS[0], &quiet, 1), "0\n");
}

#[test]
fn what_waits_below_the_program_is_its_own() {
    let own = format!(
        "getgpu -q --ignore-grant --wait > $HOME/own & until [ $(getgpu --queue | wc -l) = 3 ]; do sleep 0.02; done; {ASK}; kill $!"
    );
    for way in &WAYS[..3] {
        assert_eq!(told(way, &own, 0), "no call is waiting\n1\n", "{way}");
    }
}

#[test]
fn without_a_device_there_is_no_room_to_make() {
    let sandbox = Sandbox::new("h200x1");
    let holder = sandbox.leased().spawn();
    sandbox.until_running(1);
    let waiting = line_up(&sandbox, vec![leased(&sandbox, "a", "0")]);
    let asked = sandbox.ask("--wanted");
    asked.exits(1).prints("you hold no device here\n").says(&[]);
    sandbox.ask("-q --wanted").exits(1).prints("").says(&[]);
    for words in [
        "--wanted --queue",
        "--wanted --wait",
        "--wanted 3",
        "-n 2 --wanted",
    ] {
        sandbox.ask(words).refuses(2, "exclude each other");
    }
    sandbox.set_settings("nonsense = [");
    sandbox.ask("--wanted").exits(2);
    sandbox.set_settings("lock = '/proc/none/lock'");
    let command = sandbox.getgpu(["--wanted"]).env_remove("GETGPU_LOCK");
    command.run().exits(4);
    sandbox.set_settings("");
    drop(holder);
    for waiter in waiting {
        waiter.wait().exits(0);
    }
    sandbox.assert_clean();
}

#[test]
fn a_call_that_waits_for_a_limit_of_its_user_wants_no_device() {
    let Some(sandbox) = Sandbox::given(&[Need::Root], "mig4", "max_per_user = 1") else {
        return;
    };
    let theirs = |words: &str| as_other_user(sandbox.words(words));
    let asking = sandbox.shell("bash", WAYS[0]).args([ASK]).spawn();
    let holder = theirs("cudawrap -- sim-cuda --run forever").spawn();
    sandbox.until_running(1);
    wait::until("both have one", || listing::free_devices(&sandbox) == "2");
    let waiter = theirs("cudawrap --wait -- true").spawn();
    let probe = bytes::open(&sandbox);
    wait::until("it stands aside", || {
        bytes::is_confirmed(&probe, bytes::NUMBERS, bytes::ALL_NUMBERS)
    });
    sandbox.file("home/go", "", 0o644);
    asking.wait().exits(0).prints("no call is waiting\n1\n");
    holder.kill();
    waiter.wait().exits(0);
}

/// The block of the guide that begins with these words.
fn block(beginning: &str) -> String {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/GUIDE.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, block) = guide.split_once(&format!("```sh\n{beginning}")).unwrap();
    format!("{beginning}{}", block.split_once("```").unwrap().0)
}

/// The loop of the guide ends with the last epoch, or with the status of a failure, and makes room
/// in between.
#[test]
fn the_training_loop_of_the_guide_makes_room_and_ends() {
    let train = "echo epoch >>trained; [ $(wc -l <trained) != \"$FAILS\" ] || exit 9; until [ -e go ]; do sleep 0.02; done";
    for (fails, is_waiting, status, epochs) in [
        ("0", false, 0, 3),
        ("0", true, 0, 3),
        ("1", false, 9, 1),
        ("2", true, 9, 2),
    ] {
        let sandbox = Sandbox::new("h200x1");
        let script = block("#!/bin/sh\n# train.sh").replace("-lt 20", "-lt 3");
        sandbox.file("work/train.sh", &script, 0o755);
        sandbox.file("work/train", &format!("#!/bin/sh\n{train}\n"), 0o755);
        let outer = block("# Again as long as");
        let running = sandbox.shell("sh", &outer).env("FAILS", fails).spawn();
        sandbox.until_file("work/trained");
        let waiters = usize::from(is_waiting);
        let commands = (0..waiters).map(|number| leased(&sandbox, &number.to_string(), "0"));
        let waiting = line_up(&sandbox, commands.collect());
        sandbox.file("work/go", "", 0o644);
        running.wait().exits(status);
        for waiter in waiting {
            waiter.wait().exits(0);
        }
        let trained = std::fs::read_to_string(sandbox.path("work/trained")).unwrap();
        assert_eq!(trained.lines().count(), epochs, "{fails} {is_waiting}");
        let made_room = sandbox.runs().len();
        assert_eq!(made_room, waiters, "the one that waited has run");
    }
}
