//! A reservation lasts until its program exits, even if the program takes minutes to
//! touch the GPU, and no longer. The node has one device, so any device that is printed
//! is the reserved one.

use std::time::Duration;

use getgpu_tests::{OTHER, all_at_once, free_again, nobody_gets_one_before_the_end, somebody};
use harness::{Sandbox, skip, wait};

/// `(shell, script)`: the prefix form as each shell has it, with a program that has no
/// context yet when `--for` is long over.
#[rustfmt::skip]
const PREFIX: [(&str, &str); 4] = [
    ("bash", "CUDA_VISIBLE_DEVICES=$(getgpu --for 0.5) sim-cuda --init 2 --tag app"),
    ("dash", "CUDA_VISIBLE_DEVICES=`getgpu --for 0.5` sim-cuda --init 2 --tag app; true"),
    ("zsh", "CUDA_VISIBLE_DEVICES=$(getgpu --for 0.5) sim-cuda --init 2 --tag app; true"),
    ("tcsh", "env CUDA_VISIBLE_DEVICES=`getgpu --for 0.5` sim-cuda --init 2 --tag app"),
];

/// A program that exits before the holder's first regular look, 5 ms after printing. No
/// look is certain to meet it, so most is enough.
#[test]
fn a_program_of_three_milliseconds_leaves_nothing_reserved() {
    let sandbox = Sandbox::new("a100x8");
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        dash -c 'CUDA_VISIBLE_DEVICES=$(getgpu) sleep 0.003; :'
    done";
    sandbox.shell("dash", script).run().exits(0).says(&[]);
    let few = || sandbox.holders().len() <= 8;
    wait::until("most devices are free again", few);
}

#[test]
fn an_app_that_touches_the_gpu_long_after_for_keeps_its_device() {
    all_at_once(PREFIX, |(shell, script)| {
        if skip::lacks(&[skip::Need::Tool(shell)]) {
            return;
        }
        let sandbox = Sandbox::new("h200x1");
        let mut program = sandbox.shell(shell, script).spawn();
        wait::until("it is reserved", || !sandbox.holders().is_empty());
        assert!(nobody_gets_one_before_the_end(&sandbox, &mut program) > 1);
        program.wait().exits(0);
        free_again(&sandbox);
        assert_eq!(sandbox.runs()[0].tag, "app");
    });
}

/// All programs of a job name the devices of its grant, and use them by that; where the grant is
/// one device, its name is that of the reservation.
#[test]
fn the_only_device_of_a_grant_is_its_programs_until_that_ends() {
    let sandbox = Sandbox::new("h200x1");
    let (_, script) = PREFIX[0];
    let granted = sandbox.shell("bash", script);
    let mut program = granted.visible(&sandbox.uuids()[0]).spawn();
    wait::until("it is reserved", || !sandbox.holders().is_empty());
    assert!(nobody_gets_one_before_the_end(&sandbox, &mut program) > 1);
    program.wait().exits(0);
    free_again(&sandbox);
}

#[test]
fn another_user_can_neither_have_it_nor_end_it() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "h200x1", "") else {
        return;
    };
    let wait = "sh -c 'until [ -e over ]; do sleep 0.05; done'";
    let script = format!("CUDA_VISIBLE_DEVICES=$(getgpu) {wait}; true");
    let mut program = sandbox.shell("bash", &script).uid(1002).spawn();
    wait::until("it is reserved", || !sandbox.holders().is_empty());
    let holder = sandbox.holders()[0].clone();
    assert_eq!(holder.uid, 1002);
    let uuid = sandbox.uuids()[0].clone();
    for signal in ["TERM", "KILL", "STOP"] {
        let kill = format!("kill -{signal} {}", holder.pid);
        let killed = sandbox.shell("dash", &kill).uid(OTHER).run();
        assert_ne!(killed.code(), Some(0));
    }
    let release = sandbox.ask_as(OTHER, &format!("--release {uuid}"));
    release.refuses(1, "no reservation of yours");
    let all = sandbox.ask_as(OTHER, "--release-all");
    all.exits(0).prints("");
    let named = sandbox.words("getgpu").uid(OTHER).visible(&uuid);
    named.run().refuses(1, "1 of 1 in use (reserved 1)");
    std::fs::write(sandbox.path("work/over"), "").unwrap();
    nobody_gets_one_before_the_end(&sandbox, &mut program);
    program.wait().exits(0);
    free_again(&sandbox);
}

#[test]
fn getgpu_returns_at_once_and_leaves_no_child() {
    let sandbox = Sandbox::new("h200x1");
    let script = "x=$(getgpu); echo $x; wait; jobs -p; cat /proc/$$/task/$$/children";
    let outcome = sandbox.shell("bash", script).run();
    let mut lines = outcome.stdout.lines();
    assert_eq!(lines.next(), Some(&*sandbox.uuids()[0]));
    // The only child is the cat that looks; a holder among them would be one more.
    let children = lines.next().unwrap_or_default().split_whitespace();
    assert!(children.count() <= 1, "{outcome:#?}");
    // It has returned before the holder has ended; in doubt reserved, although the shell has exited.
    assert_eq!(sandbox.holders().len(), 1);
}

#[test]
fn a_reservation_without_a_program_ends_after_for() {
    let sandbox = Sandbox::new("h200x1");
    sandbox.line("--for 1.5");
    wait::throughout(Duration::from_secs(1), "it is reserved", || {
        sandbox.holders().len() == 1 && sandbox.locked()
    });
    sandbox.assert_clean();
    sandbox.set_settings("reserve_for = '200ms'");
    sandbox.line("");
    sandbox.assert_clean();
}

#[test]
fn a_program_that_leaves_its_shell_or_is_a_pipeline_keeps_it() {
    let scripts = [
        "CUDA_VISIBLE_DEVICES=$(getgpu --for 0.3) setsid -f sim-cuda --init 1.2 --tag last",
        "CUDA_VISIBLE_DEVICES=$(getgpu --for 0.3) bash -c 'sim-cuda; probe --sleep 0.8; sim-cuda --tag last'",
        "CUDA_VISIBLE_DEVICES=$(getgpu --for 0.3) sh -c 'sleep 0.2; exec env -u CUDA_VISIBLE_DEVICES probe --sleep 1'",
        "probe --gpus device=$(getgpu --for 0.3) --sleep 1.2",
        "CUDA_VISIBLE_DEVICES=$(getgpu --for 0.3 --format index) sim-cuda --init 1.2 --tag last; true",
        "export CUDA_VISIBLE_DEVICES=$(getgpu --for 0.3); (sim-cuda --init 1 --tag last) | cat >/dev/null",
        "export CUDA_VISIBLE_DEVICES=$(getgpu --for 0.3); nohup sim-cuda --init 1 --tag last >/dev/null 2>&1 & wait",
    ];
    all_at_once(scripts, |script| {
        let sandbox = Sandbox::with("h200x1", "linger = '1s'");
        let program = sandbox.shell("bash", script).spawn();
        wait::until("it is reserved", || !sandbox.holders().is_empty());
        // Whatever is left of the sandbox's programs besides the holder is the program
        // that has it. In the middle of an exec a process has no environment to know it
        // by, so one look that finds none proves nothing.
        let seen = || sandbox.processes().len() > sandbox.holders().len();
        let works = || wait::holds_within(Duration::from_millis(50), seen);
        while works() {
            let outcome = somebody(&sandbox, &["--no-reserve"]).run();
            let kept = outcome.code() == Some(1) || !works();
            assert!(kept, "given away in use: {script}");
        }
        program.wait().exits(0);
        let free = wait::holds_within(Duration::from_secs(3), || !sandbox.locked());
        assert!(free, "kept after its end: {script}");
    });
}

#[test]
fn an_execute_only_program_of_a_plain_user_keeps_it() {
    let Some(sandbox) = Sandbox::given(&[skip::Need::Root], "h200x1", "") else {
        return;
    };
    // Written by another process: one forked here meanwhile would keep it open for
    // writing.
    let secret = sandbox.text("home/secret");
    let install = "install -m 0711 @/bin/sim-cuda @/home/secret";
    sandbox.words(install).run().exits(0);
    let script = format!("CUDA_VISIBLE_DEVICES=$(getgpu --for 0.3) {secret} --init 1.5; true");
    let mut program = sandbox.shell("bash", &script).uid(1002).spawn();
    wait::until("it is reserved", || !sandbox.holders().is_empty());
    assert!(nobody_gets_one_before_the_end(&sandbox, &mut program) > 1);
    program.wait().exits(0);
    free_again(&sandbox);
}

#[test]
fn linger_is_how_long_a_gap_may_be() {
    let sandbox = Sandbox::with("h200x1", "linger = '1s'");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu); sim-cuda --run 0.3; : >over; read x; true";
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let program = sandbox.shell("bash", script).stdin(reader).spawn();
    sandbox.until_file("work/over");
    wait::throughout(Duration::from_millis(700), "lingering", || {
        sandbox.holders().len() == 1
    });
    sandbox.assert_clean();
    drop(writer);
    program.wait().exits(0);
}
