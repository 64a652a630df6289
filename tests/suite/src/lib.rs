//! Tests of the commands as users meet them: each folder of `tests/` is one theme and one
//! test binary, each test is named after the guarantee it holds. They start the built
//! programs in a sandbox of `harness`, so `cargo build --workspace` comes first.

pub mod bytes;
pub mod docker;
pub mod hooked;
pub mod links;
pub mod listing;
pub mod mps;
pub mod packages;
pub mod random;
pub mod real;
pub mod slurm;
pub mod soak;
pub mod storm;
pub mod stranger;
pub mod wrapped;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use harness::skip::Need;
use harness::{Command, Running, Sandbox, Signal, wait};
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// A path below the folder that cargo builds into: what is kept there between runs.
///
/// # Panics
///
/// If the test program is not where cargo puts it.
pub fn on_target(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the test program");
    let target = program.ancestors().nth(3).expect("cargo's target folder");
    target.join(name)
}

/// No arguments.
pub const PLAIN: [&str; 0] = [];

/// What getgpu prints, each kept reserved, until none is free any more.
#[track_caller]
pub fn until_none_is_free(sandbox: &Sandbox, arguments: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let outcome = sandbox.getgpu(arguments).run();
        if outcome.code() == Some(1) {
            outcome.prints("");
            return all;
        }
        all.push(outcome.line());
        assert!(all.len() < 1000, "there is no end");
    }
}

/// Asserts that these are the devices, in any order, each once.
#[track_caller]
pub fn assert_devices(found: &[String], expected: &[String]) {
    let set: BTreeSet<&String> = found.iter().collect();
    assert_eq!(set.len(), found.len(), "one came twice: {found:?}");
    assert_eq!(set, expected.iter().collect::<BTreeSet<_>>());
}

/// The line that a program of the test writes into this file of `work`, once it is whole.
#[track_caller]
pub fn line_of(sandbox: &Sandbox, name: &str) -> String {
    let read = || std::fs::read_to_string(sandbox.path("work").join(name)).unwrap_or_default();
    wait::until(&format!("{name} has a line"), || read().ends_with('\n'));
    read().trim_end().to_owned()
}

/// How far counts are from all being equally likely: the chi-square statistic over
/// `devices`.
#[track_caller]
pub fn chi_square(picks: &[String], devices: &[String]) -> f64 {
    assert!(picks.iter().all(|pick| devices.contains(pick)), "{picks:?}");
    let expected = picks.len() as f64 / devices.len() as f64;
    let part = |device| {
        let count = picks.iter().filter(|pick| *pick == device).count();
        assert!(count > 0, "{device} never came: {picks:?}");
        (count as f64 - expected).powi(2) / expected
    };
    devices.iter().map(part).sum()
}

/// The first line of a simulated program, which it prints just after it has its context.
#[track_caller]
pub fn first_line(program: &Running) -> String {
    wait::until("the program has printed where it runs", || {
        program.stdout().contains('\n')
    });
    program.stdout()
}

/// How many programs run on each device of the node.
pub fn loads(sandbox: &Sandbox) -> BTreeMap<String, usize> {
    let uuids = sandbox.uuids().into_iter();
    let mut loads: BTreeMap<String, usize> = uuids.map(|uuid| (uuid, 0)).collect();
    for context in sandbox.folder().running().expect("the node's contexts") {
        *loads.entry(context.uuid).or_default() += 1;
    }
    loads
}

/// A node, where the test is root's; none: it has been said.
pub fn root(node: &str) -> Option<Sandbox> {
    Sandbox::given(&[Need::Root], node, "")
}

/// Another user, where the test runs as root.
pub const OTHER: u32 = 1001;

/// How messages call that user: by name, where this machine has one.
pub fn other_user() -> String {
    name_of(OTHER.into())
}

/// How messages call the user of the test.
pub fn own_user() -> String {
    name_of(nix::unistd::geteuid())
}

fn name_of(uid: nix::unistd::Uid) -> String {
    let known = nix::unistd::User::from_uid(uid).ok().flatten();
    known.map_or_else(|| uid.to_string(), |user| user.name)
}

/// A reservation that is about to end, since the process that it is held for was killed, and
/// does not end, since its holder is stopped: the device, and the holder. Neither process is
/// a child of this one.
///
/// # Panics
///
/// If no device is free.
pub fn ending(sandbox: &Sandbox) -> (String, Pid) {
    let script = "sleep 1000 >/dev/null 2>&1 & getgpu --as-lease --hold=$!; echo $!";
    let text = sandbox.shell("sh", script).run().exits(0).stdout.clone();
    let mut lines = text.lines().map(str::to_owned);
    let (uuid, process) = lines.next().zip(lines.next()).expect("two lines");
    let process = Pid::from_raw(process.parse().expect("a process id"));
    let holder = Pid::from_raw(sandbox.holders().first().expect("its holder").pid);
    kill(holder, Signal::SIGSTOP).expect("to stop the holder");
    kill(process, Signal::SIGKILL).expect("to end the process");
    (uuid, holder)
}

/// getgpu as somebody else asks: another user, or this one where the test is not root.
pub fn somebody(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    as_other_user(sandbox.getgpu(arguments))
}

/// The same for any command.
pub fn as_other_user(command: Command) -> Command {
    if nix::unistd::geteuid().is_root() {
        command.uid(OTHER)
    } else {
        command
    }
}

/// Asks for a device about 20 times a second until `program` has exited; asserts that
/// nobody gets one before. Gives how often it asked.
///
/// For a node with one device: whoever gets one gets that of the program.
#[track_caller]
pub fn nobody_gets_one_before_the_end(sandbox: &Sandbox, program: &mut Running) -> u32 {
    for asked in 1.. {
        let outcome = somebody(sandbox, &["--no-reserve"]).run();
        if program.is_over() {
            return asked;
        }
        assert_ne!(outcome.code(), Some(0), "given away in use: {program:#?}");
        outcome.exits(1);
        std::thread::sleep(Duration::from_millis(30));
    }
    0
}

/// Asserts that somebody else gets a device as soon as reservations have lingered.
#[track_caller]
pub fn free_again(sandbox: &Sandbox) {
    sandbox.assert_clean();
    somebody(sandbox, &["--no-reserve"]).run().line();
}

/// Runs `test` on every item at the same time, for tests that mostly wait. The threads have
/// the name of the caller's, by which a test that is skipped says which it is.
pub fn all_at_once<T: Send>(items: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    std::thread::scope(|scope| {
        for item in items {
            let thread = std::thread::Builder::new().name(name.clone());
            thread.spawn_scoped(scope, || test(item)).expect("a thread");
        }
    });
}
