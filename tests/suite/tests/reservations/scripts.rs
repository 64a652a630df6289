//! Scripts that call getgpu again and again: no device is printed twice before the first
//! answer's reservation has ended, and a loop of short programs goes on although every
//! reservation outlasts its program by `linger`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use getgpu_tests::{all_at_once, as_other_user, bytes, free_again, line_of};
use getgpu_tests::{nobody_gets_one_before_the_end, somebody};
use harness::{Sandbox, Signal, wait};
use nix::sys::signal::kill;

/// The devices on which programs ran, in order.
pub(crate) fn ran_on(sandbox: &Sandbox) -> Vec<String> {
    let runs = sandbox.runs().into_iter();
    runs.map(|run| run.uuid).collect()
}

pub(crate) fn different(devices: &[String]) -> usize {
    devices.iter().collect::<BTreeSet<_>>().len()
}

/// Runs a script for which each of `programs` programs must have a device of its own.
#[track_caller]
fn assert_all_different(node: &str, shell: &str, script: &str, programs: usize) {
    let sandbox = Sandbox::new(node);
    sandbox.shell(shell, script).run().exits(0);
    wait::until("all programs ran", || ran_on(&sandbox).len() == programs);
    let devices = ran_on(&sandbox);
    assert_eq!(different(&devices), programs, "{script}: {devices:?}");
    sandbox.assert_exclusive();
}

/// The lines with which values have been taken for unused while a program was to use
/// them.
#[test]
#[rustfmt::skip]
fn programs_that_start_later_have_devices_of_their_own() {
    let app = "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.6";
    all_at_once([
        (3, format!("for i in 1 2 3; do setsid -f sh -c \"sleep .3; {}\"; done; sleep 1.5", app.replace('$', "\\$"))),
        (3, format!("for i in 1 2 3; do setsid -f sh -c \"sleep .3; {app}\"; done; sleep 1.5")),
        (4, "for i in 1 2; do { CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run .2; CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run .2; } & done | while read x; do :; done".into()),
        (2, "G=$(getgpu); CUDA_VISIBLE_DEVICES=$G sleep .2; (sleep 1; CUDA_VISIBLE_DEVICES=$G sim-cuda --run 1) & CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 2; wait".into()),
        (2, "coproc { read x; CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 1 >&2; }; CUDA_VISIBLE_DEVICES=$(getgpu) sleep .1; echo >&${COPROC[1]}; CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 1.5; wait".into()),
        (4, "for i in 1 2 3 4; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.8 & done; wait".into()),
        (4, "for i in 1 2 3 4; do d=$(getgpu); CUDA_VISIBLE_DEVICES=$d sim-cuda --init 0.6 --run 0.3 & done; wait".into()),
    ], |(programs, script)| assert_all_different("mig4", "bash", &script, programs));
}

#[test]
fn two_calls_never_print_the_same_device() {
    for between in ["probe -i $a", ":", "CUDA_VISIBLE_DEVICES=$a sleep 0.1"] {
        let sandbox = Sandbox::new("mig4");
        let script = format!("a=$(getgpu); {between} >out; b=$(getgpu); echo $a $b");
        let outcome = sandbox.shell("bash", &script).run();
        let devices: BTreeSet<&str> = outcome.exits(0).stdout.split_whitespace().collect();
        assert_eq!(devices.len(), 2, "{between}: {outcome:#?}");
    }
}

#[test]
fn an_unused_half_of_two_devices_stays_until_both_are_unused() {
    let sandbox = Sandbox::with("gpus4", "linger = '500ms'");
    let script = "d=$(getgpu -n 2); echo $d >devices; \
        CUDA_VISIBLE_DEVICES=${d%,*} nohup sim-cuda --until-file over-1 >/dev/null 2>&1 & \
        CUDA_VISIBLE_DEVICES=${d#*,} nohup sim-cuda --until-file over-2 >/dev/null 2>&1 & \
        until [ -e started ]; do sleep 0.02; done";
    let shell = sandbox.shell("bash", script).spawn();
    let devices = line_of(&sandbox, "devices");
    sandbox.until_running(2);
    sandbox.file("work/started", "", 0o644);
    shell.wait().exits(0);
    sandbox.file("work/over-1", "", 0o644);
    sandbox.until_running(1);
    wait::throughout(Duration::from_secs(1), "both are reserved", || {
        somebody(&sandbox, &["--count-free"]).run().line() == "2"
    });
    assert_eq!(devices.split(',').count(), 2);
    sandbox.file("work/over-2", "", 0o644);
    free_again(&sandbox);
}

/// A terminal multiplexer has the UUID in its arguments, starts the program much later,
/// and goes on when that has exited.
#[test]
fn an_argument_keeps_a_device_and_is_no_use_of_it() {
    let sandbox = Sandbox::with("h200x1", "linger = '300ms'\nreserve_for = '4s'");
    // The server is below the caller only while it starts.
    let script = "d=$(getgpu); setsid -f probe --sleep 60 $d; probe --sleep 0.5 $d; \
        setsid -f sh -c \"sleep 2; CUDA_VISIBLE_DEVICES=$d sim-cuda --run 1\"; sleep 3; true";
    let mut shell = sandbox.shell("bash", script).spawn();
    wait::until("it is reserved", || !sandbox.holders().is_empty());
    assert!(nobody_gets_one_before_the_end(&sandbox, &mut shell) > 0);
    wait::until("the program has run", || ran_on(&sandbox).len() == 1);
    sandbox.until_running(0);
    free_again(&sandbox);
}

/// What a loop is, its node and settings (reservations linger as shipped, 2 s), how many devices others hold all the time, its
/// script, and how many programs it runs.
type Loop = (
    &'static str,
    &'static str,
    &'static str,
    usize,
    String,
    usize,
);

/// A look of getgpu-hold can miss a program that runs for less time than the look takes.
/// Beside many other loops a look takes longer than 0.3 s.
const ONCE: &str = "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 1";

#[rustfmt::skip]
fn loops() -> Vec<Loop> {
    let six = |body: &str| format!("for i in 1 2 3 4 5 6; do {body} || exit 9; done");
    let two_at_a_time = "for i in 1 2 3 4 5; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 1 & a=$!; CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 1 & wait $! || exit 9; wait $a || exit 9; done";
    let workers = |n: usize| format!("for w in $(seq {n}); do (for i in 1 2 3; do {ONCE} || exit 9; done) & all=\"$all $!\"; done; for p in $all; do wait $p || exit 9; done");
    vec![
        ("six short programs on four devices", "mig4", "", 0, six(ONCE), 6),
        ("with one free", "mig4", "", 3, six(ONCE), 6),
        ("inside a grant of two, of which one is held", "mig4", "", 0,
            format!("export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 2); getgpu --hold >/dev/null; for i in 1 2 3; do {ONCE} || exit 9; done"), 3),
        ("inside a grant of two", "mig4", "", 0, format!("export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 2); {}", six(ONCE)), 6),
        ("by cudawrap", "mig4", "", 3, "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 1; cudawrap -- sim-cuda --run 1".into(), 2),
        ("two at a time on two GPUs", "gpus4", "", 2, two_at_a_time.into(), 10),
        ("pairs", "gpus4", "", 2, six("CUDA_VISIBLE_DEVICES=$(getgpu -q -n 2) sim-cuda --run 1"), 6),
        ("halves", "h200x1", "", 0, six("CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2) sim-cuda --shared --run 1"), 6),
        ("as many workers as devices", "a100x1", "", 0, workers(7), 21),
        ("within a limit", "mig4", "max_per_user = 1", 0, six(ONCE), 6),
        ("in a pipeline", "h200x1", "", 0, format!("seq 4 | while read i; do {ONCE} || exit 9; done | cat"), 4),
        ("behind an older job", "h200x1", "", 0, format!("(sleep 30 & wait) & job=$!; for i in 1 2 3; do {ONCE} || exit 9; done; kill $job"), 3),
    ]
}

/// Runs one loop as an ordinary user where that is possible, since root has no limit.
fn run_loop((what, node, settings, taken, script, programs): &Loop) {
    let sandbox = Sandbox::with(node, settings);
    let taken: Vec<String> = (0..*taken).map(|_| sandbox.hold_here()).collect();
    let outcome = as_other_user(sandbox.shell("bash", script)).run();
    outcome.exits(0).says(&[]);
    let devices = ran_on(&sandbox);
    assert_eq!(devices.len(), *programs, "{what}: {outcome:#?}");
    assert!(
        devices.iter().all(|device| !taken.contains(device)),
        "{what}"
    );
}

#[test]
fn loops_of_short_programs_never_fail_on_a_full_node() {
    for some in loops().chunks(6) {
        all_at_once(some, run_loop);
    }
}

/// A full node whose reservations do not linger is refused at once, and one that lingers
/// and is used again within the time it would take to end.
#[test]
fn a_call_waits_for_what_lingers_and_for_nothing_else() {
    let sandbox = Sandbox::new("h200x1");
    sandbox.hold_here();
    wait::until("a call ends before anything that lingers", || {
        let outcome = somebody(&sandbox, &[]).run();
        outcome.refuses(1, "no free device: 1 of 1 in use (reserved 1)");
        outcome.elapsed < Duration::from_millis(800)
    });
    let sandbox = Sandbox::new("h200x1");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu); sim-cuda --run 0.4; : >over; read x; \
        sim-cuda --until-file end; true";
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let shell = sandbox.shell("bash", script).stdin(reader).spawn();
    sandbox.until_file("work/over");
    lingers(&sandbox, &sandbox.uuids()[0], true);
    let began = Instant::now();
    let other = somebody(&sandbox, &[]).spawn();
    wait::until("it waits", || getgpu_tests::listing::waiting(&sandbox) == 1);
    drop(writer);
    lingers(&sandbox, &sandbox.uuids()[0], false);
    other
        .wait()
        .refuses(1, "no free device: 1 of 1 in use (reserved 1)");
    assert!(began.elapsed() >= Duration::from_secs(2));
    sandbox.file("work/end", "", 0o644);
    shell.wait().exits(0);
}

/// Two devices are wanted: one has room, the other one is about to.
#[test]
fn what_has_room_counts_beside_what_lingers() {
    let sandbox = Sandbox::new("gpus4");
    sandbox.line("-q -n 2 --hold");
    let other = sandbox.holders()[0].pid;
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --until-file end && getgpu -n 2 >both";
    let shell = sandbox.shell("bash", script).spawn();
    wait::until("both are reserved", || sandbox.holders().len() == 2);
    let holders = sandbox.holders();
    let holder = holders.iter().find(|holder| holder.pid != other).unwrap();
    until_its_program_is_awaited(holder.pid);
    sandbox.file("work/end", "", 0o644);
    shell.wait().exits(0);
    let both = std::fs::read_to_string(sandbox.path("work/both")).unwrap();
    assert_eq!(both.split(',').count(), 2);
}

/// Until a holder has seen its program, and waits for its end.
fn until_its_program_is_awaited(holder: i32) {
    let is_pidfd = |file: std::fs::DirEntry| {
        std::fs::read_to_string(file.path()).is_ok_and(|text| text.contains("\nPid:"))
    };
    let open = || std::fs::read_dir(format!("/proc/{holder}/fdinfo")).unwrap();
    wait::until("its program is awaited", || open().flatten().any(is_pidfd));
}

/// A holder notices the end of its program late on a busy machine: as late as it likes, by a
/// signal. Its user's next call waits meanwhile as for one that lingers.
#[test]
fn an_end_that_the_holder_has_not_noticed_is_waited_for() {
    let full = "no free device: 1 of 1 in use (reserved 1)";
    let limit = "you hold 1 of at most 1: MIG-";
    for (node, settings, refusal) in [("h200x1", "", full), ("mig4", "max_per_user = 1", limit)] {
        an_unnoticed_end_is_waited_for(&Sandbox::with(node, settings), refusal);
    }
}

/// The user has all devices that the user may have.
fn an_unnoticed_end_is_waited_for(sandbox: &Sandbox, refusal: &str) {
    let getgpu = || as_other_user(sandbox.words("getgpu"));
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --until-file end; : >over; read x";
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let shell = as_other_user(sandbox.shell("bash", script).stdin(reader)).spawn();
    wait::until("it is reserved", || sandbox.holders().len() == 1);
    let holder = sandbox.holders()[0].pid;
    until_its_program_is_awaited(holder);
    let holder = nix::unistd::Pid::from_raw(holder);
    getgpu().run().refuses(1, refusal);
    kill(holder, Signal::SIGSTOP).unwrap();
    sandbox.file("work/end", "", 0o644);
    sandbox.until_file("work/over");
    let refused = getgpu().run();
    refused.refuses(1, refusal);
    assert!(refused.elapsed >= Duration::from_secs(2), "{refused:#?}");
    let next = getgpu().spawn();
    kill(holder, Signal::SIGCONT).unwrap();
    assert!(sandbox.uuids().contains(&next.wait().line()));
    drop(writer);
    shell.wait();
}

/// A lease and a hold of all devices, each with a reservation of one of them inside that lingers,
/// and then the command `$END`.
const AROUND: [&str; 2] = [
    "cudawrap -n 4 -- sh -c 'CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.5; eval \"$END\"'",
    "export CUDA_VISIBLE_DEVICES=$(getgpu -q -n 4 --hold); \
     CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.5; eval \"$END\"",
];

/// What is left of a lease, or of a hold, is a reservation inside it that lingers: its end is waited
/// for as that of any other.
#[test]
fn what_lingers_alone_after_what_was_around_it_is_waited_for() {
    all_at_once(AROUND, |around| {
        let sandbox = Sandbox::new("gpus4");
        let shell = || sandbox.shell("bash", around).env("END", "true").run();
        shell().exits(0);
        sandbox.words("cudawrap -n 4 -- true").run().exits(0);
        // Another user sees no more than what the lock says.
        let first = shell();
        first.exits(0);
        let any = |place| {
            let probe = bytes::open(&sandbox);
            let uuids = sandbox.uuids().into_iter();
            let mut starts = uuids.map(|uuid| bytes::span(&uuid) + place);
            starts.any(|start| bytes::is_locked(&probe, start, bytes::UNITS))
        };
        wait::until("it is marked, or has ended", || {
            any(bytes::LINGERING) || !any(bytes::RESERVATION)
        });
        somebody(&sandbox, &["-n", "4", "--no-reserve"])
            .run()
            .exits(0);
    });
}

/// While the lease or the hold around it stands, the end of what lingers inside frees nothing.
#[test]
fn what_lingers_inside_another_is_not_waited_for_outside() {
    let linger = Duration::from_secs(60);
    all_at_once(AROUND, |around| {
        let sandbox = Sandbox::with("gpus4", "linger = '60s'");
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let shell = sandbox.shell("bash", around).env("END", "read x");
        let shell = shell.stdin(reader).spawn();
        let is_marked = |uuid: &String| {
            let start = bytes::span(uuid) + bytes::INNER_LINGERING;
            bytes::is_locked(&bytes::open(&sandbox), start, bytes::UNITS)
        };
        wait::until("it lingers inside", || {
            sandbox.uuids().iter().any(is_marked)
        });
        for call in [somebody(&sandbox, &[]), sandbox.words("getgpu")] {
            let refused = call.run();
            refused.exits(1);
            assert!(refused.elapsed < linger, "{refused:#?}");
        }
        drop(writer);
        shell.wait();
    });
}

/// Waits until the holder of a device shows on the lock whether its programs have exited.
#[track_caller]
fn lingers(sandbox: &Sandbox, device: &str, expected: bool) {
    let probe = bytes::open(sandbox);
    let byte = bytes::span(device) + bytes::LINGERING;
    let what = format!("the reservation lingers: {expected}");
    wait::until(&what, || bytes::is_locked(&probe, byte, 1) == expected);
}
