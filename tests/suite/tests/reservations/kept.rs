//! What keeps a reservation while nothing hands it on: programs in every spelling of the
//! variable, unreadable ones, waiters, threads and daemons, and calls inside a grant.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use getgpu_tests::{all_at_once, bytes, free_again, somebody};
use harness::{Sandbox, wait};

use crate::scripts::{different, ran_on};

/// A process that waits or asks NVML has the grant that it inherited.
#[test]
fn a_waiter_keeps_the_reservation_that_it_waits_inside() {
    let sandbox = Sandbox::with("gpus4", "linger = '300ms'");
    let script = "d=$(getgpu -n 2 --for 1); CUDA_VISIBLE_DEVICES=$d cudawrap -- sim-cuda --until-file over & \
        CUDA_VISIBLE_DEVICES=$d cudawrap -- sim-cuda --until-file over & \
        until [ -e started ]; do sleep 0.02; done; exec env CUDA_VISIBLE_DEVICES=$d cudawrap --wait -- sim-cuda";
    let shell = sandbox.shell("bash", script).spawn();
    sandbox.until_running(2);
    sandbox.file("work/started", "", 0o644);
    wait::until("it waits", || getgpu_tests::listing::waiting(&sandbox) == 1);
    sandbox.file("work/over", "", 0o644);
    shell.wait().exits(0);
    assert_eq!(different(&ran_on(&sandbox)), 2);
    free_again(&sandbox);
}

#[test]
fn a_second_export_and_a_nested_script_have_the_same_device() {
    let again =
        "export CUDA_VISIBLE_DEVICES=$(getgpu); echo $CUDA_VISIBLE_DEVICES; sim-cuda --run 0.1";
    for first in ["getgpu", "getgpu --hold"] {
        let sandbox = Sandbox::new("mig4");
        let script = format!(
            "export CUDA_VISIBLE_DEVICES=$({first}); echo $CUDA_VISIBLE_DEVICES; {again}; bash -c '{again}; true'; \
             dash -c '{again}'; CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda; getgpu --hold; getgpu --count-free"
        );
        let outcome = sandbox.shell("bash", &script).run();
        outcome.exits(0).says(&[]);
        let mut lines: Vec<&str> = outcome.told();
        assert_eq!(
            lines.pop(),
            Some("1"),
            "the pool is the grant, and what is one's own counts as free"
        );
        assert_eq!(
            (lines.len(), lines.iter().collect::<BTreeSet<_>>().len()),
            (5, 1),
            "{outcome:#?}"
        );
        assert!(ran_on(&sandbox).iter().all(|uuid| uuid == lines[0]));
        free_again(&sandbox);
    }
}

/// What a terminal multiplexer does: each of its windows inherits the variable that its
/// first client had.
#[test]
fn an_unrelated_program_on_the_granted_device_is_named() {
    let sandbox = Sandbox::builder("mig4").build();
    let device = sandbox.hold_here();
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --until-file over; true";
    let window = || sandbox.shell("bash", script).visible(&device).spawn();
    let first = window();
    sandbox.until_running(1);
    let second = window();
    let line = format!("getgpu: {device}: also used by ");
    wait::until("the second is told", || second.stderr().starts_with(&line));
    assert!(second.stderr().contains("sim-cuda"), "{}", second.stderr());
    assert_eq!(first.stderr(), "");
    sandbox.file("work/over", "", 0o644);
    first.wait().exits(0);
    second.wait();
}

#[test]
fn a_program_on_one_of_several_devices_that_are_printed_again_is_named() {
    let sandbox = Sandbox::new("gpus4");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu -n 2 --policy first --hold); \
                  cudawrap --gpu 1 -- sim-cuda --until-file over & \
                  until [ $(ls $SIM_NODE/running | grep -vc gate) = 1 ]; do sleep 0.01; done; \
                  getgpu -n 2 >/dev/null; touch over; wait; getgpu -n 2 >/dev/null";
    let outcome = sandbox.shell("bash", script).run();
    let line = format!("getgpu: {}: also used by ", sandbox.uuids()[1]);
    let lines: Vec<&str> = outcome.exits(0).stderr.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with(&line),
        "{outcome:#?}"
    );
}

/// A hold, or a lease, may end before a program that was started inside it.
#[test]
fn what_is_printed_again_for_no_program_is_kept_for_linger() {
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); getgpu >/dev/null; \
                  unset CUDA_VISIBLE_DEVICES; : >printed; sleep 60";
    // As shipped it ends; longer, it is there however busy the machine is.
    for (settings, left) in [("linger = '60s'", 2), ("", 1)] {
        let sandbox = Sandbox::with("mig4", settings);
        let shell = sandbox.shell("bash", script).spawn();
        sandbox.until_file("work/printed");
        wait::until("what is left is reserved", || {
            sandbox.holders().len() == left
        });
        shell.kill();
    }
}

#[test]
fn a_device_that_is_printed_again_is_kept_for_its_own_program() {
    let inner = "CUDA_VISIBLE_DEVICES=$(getgpu) setsid sim-cuda --init 1 --run 2 &";
    let lease = "cudawrap -- python3 -c 'import subprocess, time\n\
        subprocess.Popen(\"CUDA_VISIBLE_DEVICES=$(getgpu) exec sim-cuda --init 1 --run 2\", shell=True)\n\
        time.sleep(1)'";
    let scripts = [
        format!("export CUDA_VISIBLE_DEVICES=$(getgpu --hold); {inner} sleep 1"),
        format!(
            "export CUDA_VISIBLE_DEVICES=$(getgpu --hold --for 4); {} sleep 4.5",
            inner.replace("--init 1", "--init 4")
        ),
        lease.to_owned(),
    ];
    all_at_once(scripts, |script| {
        let sandbox = Sandbox::with("h200x1", "linger = '300ms'");
        sandbox.shell("bash", &script).run();
        let next = "CUDA_VISIBLE_DEVICES=$(getgpu --wait=20) sim-cuda --run 0.4";
        sandbox.shell("bash", next).run().exits(0);
        assert_eq!(ran_on(&sandbox).len(), 2, "{script}");
        sandbox.assert_exclusive();
    });
}

#[test]
fn what_a_program_leaves_behind_keeps_its_device() {
    // One whose environment is empty, and which begins long after the device is seen in
    // use; one whose first thread has ended.
    let thread = "python3 -c 'import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(6,)).start()\ntime.sleep(0.3)\nctypes.CDLL(None).pthread_exit(None)'";
    let scripts = [
        "CUDA_VISIBLE_DEVICES=$(getgpu) sh -c 'sleep 1; env -i sleep 4 & sleep 1.5'".to_owned(),
        format!("export CUDA_VISIBLE_DEVICES=$(getgpu); sim-cuda --run 0.6 & {thread}; true"),
    ];
    all_at_once(scripts, |script| {
        let sandbox = Sandbox::with("h200x1", "linger = '300ms'");
        let shell = sandbox.shell("bash", &script).spawn();
        wait::until("it is reserved", || !sandbox.holders().is_empty());
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(4) {
            somebody(&sandbox, &["--no-reserve"]).run().exits(1);
        }
        shell.wait();
        free_again(&sandbox);
    });
}

/// What a process has in memory is given back before it is a zombie, and then its user may
/// not read its environment: it ends, and has used nothing.
#[test]
fn a_large_process_that_ends_before_the_program_is_no_use() {
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
    let script = "d=$(getgpu --for 600); for n in 1 2 3 4; do dd if=/dev/zero of=/dev/null bs=400M count=1 2>/dev/null; done; sleep 0.5; CUDA_VISIBLE_DEVICES=$d sim-cuda";
    let mut command = sandbox.shell("bash", script);
    if nix::unistd::geteuid().is_root() {
        command = command.uid(1002).directory(sandbox.root());
    }
    let mut shell = command.spawn();
    wait::until("it is reserved", || !sandbox.holders().is_empty());
    while !shell.is_over() && sandbox.runs().is_empty() {
        assert_eq!(sandbox.holders().len(), 1, "it is still reserved");
    }
    shell.wait().exits(0);
    assert_eq!(sandbox.runs().len(), 1);
}

/// Others wait for what lingers, and would wait for this one in vain.
#[test]
fn a_reservation_that_an_argument_keeps_does_not_linger() {
    let sandbox = Sandbox::with("h200x1", "linger = '60s'");
    let script = "d=$(getgpu); CUDA_VISIBLE_DEVICES=$d sim-cuda --run 0.3\n\
        until [ -e go ]; do sleep 0.05; done; sh -c 'until [ -e over ]; do sleep 0.05; done' x $d";
    let shell = sandbox.shell("bash", script).spawn();
    let probe = bytes::open(&sandbox);
    let mark = bytes::span(&sandbox.uuids()[0]) + bytes::LINGERING;
    let lingers = || bytes::is_locked(&probe, mark, bytes::UNITS);
    wait::until("it lingers", lingers);
    sandbox.file("work/go", "", 0o644);
    wait::until("it is kept", || !lingers());
    sandbox.file("work/over", "", 0o644);
    wait::until("it lingers again", lingers);
    shell.wait().exits(0);
}

/// The next command of a script may have it in an argument, too.
#[test]
fn what_an_argument_kept_past_its_time_lingers() {
    let sandbox = Sandbox::with("h200x1", "linger = '60s'");
    let script =
        "d=$(getgpu --for 2); sh -c 'sleep 3; : >over' x $d; until [ -e end ]; do sleep 0.05; done";
    let shell = sandbox.shell("bash", script).spawn();
    sandbox.until_file("work/over");
    wait::throughout(Duration::from_secs(1), "it is reserved", || {
        sandbox.holders().len() == 1
    });
    sandbox.file("work/end", "", 0o644);
    shell.wait().exits(0);
}
