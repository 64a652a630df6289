//! Loops, background programs, exported variables with gaps, a script in a script. A loop
//! needs one device, and two programs at a time get two.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use getgpu_tests::{
    OTHER, all_at_once, bytes, free_again, line_of, nobody_gets_one_before_the_end, somebody,
};
use harness::{Sandbox, skip, wait};

/// The devices on which programs ran, in order.
fn ran_on(sandbox: &Sandbox) -> Vec<String> {
    sandbox
        .folder()
        .runs()
        .unwrap()
        .into_iter()
        .map(|run| run.uuid)
        .collect()
}

#[test]
fn a_loop_of_programs_needs_one_device_and_leaves_the_others_to_others() {
    let body = "do CUDA_VISIBLE_DEVICES=$(getgpu --for 60) sim-cuda --run 0.3 --tag $i; done";
    let loops = [
        ("bash", format!("for i in $(seq 20); {body}")),
        ("dash", format!("for i in $(seq 20); {body}")),
        ("zsh", format!("for i in $(seq 20); {body}")),
    ];
    all_at_once(loops, |(shell, script)| {
        if skip::lacks(&[skip::Need::Tool(shell)]) {
            return;
        }
        let sandbox = Sandbox::new("mig4");
        let mut program = sandbox.shell(shell, &script).spawn();
        wait::until("it is reserved", || !sandbox.holders().is_empty());
        while !program.is_over() {
            let free = somebody(&sandbox, &["--count-free"]).run();
            assert!(
                free.stdout == "3\n" || program.is_over(),
                "{shell}: {free:#?}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        program.wait().exits(0).says(&[]);
        let devices = ran_on(&sandbox);
        assert_eq!(
            (devices.len(), devices.iter().collect::<BTreeSet<_>>().len()),
            (20, 1),
            "{shell}: {devices:?}"
        );
        sandbox.assert_exclusive();
        free_again(&sandbox);
    });
}

#[test]
fn quick_programs_one_after_the_other_use_one_device() {
    let sandbox = Sandbox::new("mig4");
    let script =
        "for i in 1 2 3 4 5 6 7 8; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.05; done";
    sandbox.shell("bash", script).run().exits(0).says(&[]);
    assert_eq!(ran_on(&sandbox).iter().collect::<BTreeSet<_>>().len(), 1);
    sandbox.assert_exclusive();
}

/// Each of two scripts has a reservation that lingers; whichever asks first has its own
/// again.
#[test]
fn a_script_reuses_its_own_reservation_and_not_another_scripts() {
    for first_to_ask in ["one", "two"] {
        let sandbox = Sandbox::builder("mig4").settings("linger = '30s'").build();
        let start = |name: &str| {
            nix::unistd::mkfifo(
                &sandbox.path(&format!("work/go-{name}")),
                nix::sys::stat::Mode::S_IRWXU,
            )
            .unwrap();
            let script = format!(
                "G=$(getgpu); CUDA_VISIBLE_DEVICES=$G sim-cuda --run 0.1; echo $G >{name}; read x <go-{name}; \
                 H=$(getgpu); echo $G $H"
            );
            let shell = sandbox.shell("bash", &script).spawn();
            let device = line_of(&sandbox, name);
            lingers(&sandbox, &device);
            (shell, device)
        };
        let scripts = [("one", start("one")), ("two", start("two"))];
        let other = scripts.iter().position(|(name, _)| *name != first_to_ask);
        let mut scripts = Vec::from(scripts);
        scripts.rotate_left(1 - other.unwrap());
        for (name, (shell, device)) in scripts {
            std::fs::write(sandbox.path(&format!("work/go-{name}")), "\n").unwrap();
            let outcome = shell.wait();
            outcome.exits(0).says(&[]);
            let lines: Vec<&str> = outcome.stdout.lines().collect();
            assert_eq!(
                lines.last(),
                Some(&format!("{device} {device}").as_str()),
                "{first_to_ask} first: {name}"
            );
        }
    }
}

/// Waits until the holder of a device shows on the lock that its programs have exited.
#[track_caller]
fn lingers(sandbox: &Sandbox, device: &str) {
    let probe = bytes::open(sandbox);
    let byte = bytes::span(device) + bytes::LINGERING;
    wait::until("the reservation lingers", || {
        bytes::is_locked(&probe, byte, 1)
    });
}

#[test]
fn a_reservation_that_is_used_again_lingers_no_longer() {
    let sandbox = Sandbox::builder("mig4").settings("linger = '30s'").build();
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu); sim-cuda --run 0.1; echo $CUDA_VISIBLE_DEVICES >device; \
                  read x; sim-cuda --until-file over; true";
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let shell = sandbox.shell("bash", script).stdin(reader).spawn();
    let device = line_of(&sandbox, "device");
    lingers(&sandbox, &device);
    drop(writer);
    sandbox.until_running(1);
    let probe = bytes::open(&sandbox);
    wait::until("its holder has seen the second program", || {
        !bytes::is_locked(&probe, bytes::span(&device) + bytes::LINGERING, 1)
    });
    assert_eq!(sandbox.holders().len(), 1);
    sandbox.file("work/over", "", 0o644);
    shell.wait().exits(0);
}

/// A process that is no descendant of the caller asks as getgpu does: by the handover byte
/// and a signal.
#[test]
fn a_lingering_holder_refuses_a_process_that_is_not_below_its_caller() {
    let sandbox = Sandbox::builder("mig4").settings("linger = '30s'").build();
    let script = "CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.1 >device; read x; true";
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let shell = sandbox.shell("bash", script).stdin(reader).spawn();
    let device = line_of(&sandbox, "device")
        .split(' ')
        .nth(1)
        .unwrap()
        .to_owned();
    lingers(&sandbox, &device);
    let asker = bytes::open(&sandbox);
    let byte = |offset: i64| bytes::span(&device) + offset;
    bytes::lock(&asker, nix::libc::F_WRLCK, byte(bytes::HANDOVER), 1).unwrap();
    let holder = nix::unistd::Pid::from_raw(sandbox.holders()[0].pid);
    nix::sys::signal::kill(holder, nix::sys::signal::Signal::SIGURG).unwrap();
    let answered = |offset: i64| bytes::is_locked(&asker, byte(offset), 1);
    wait::until("it answers", || {
        answered(bytes::CONSENT) || answered(bytes::REFUSAL)
    });
    assert!(answered(bytes::REFUSAL) && !answered(bytes::CONSENT));
    drop((asker, writer));
    shell.wait().exits(0);
}

#[test]
fn two_programs_at_a_time_get_two_devices() {
    // One shell that asks four times at once, and one that asks while its last program
    // has not touched the GPU yet.
    for script in [
        "for i in 1 2 3 4; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.8 & done; wait",
        "for i in 1 2 3 4; do d=$(getgpu); CUDA_VISIBLE_DEVICES=$d sim-cuda --init 0.6 --run 0.3 & done; wait",
        "for i in 1 2 3 4; do d=$(getgpu); CUDA_VISIBLE_DEVICES=$d sim-cuda --init 1 & probe --sleep 0.1 >x; done; wait",
    ] {
        let sandbox = Sandbox::new("mig4");
        sandbox.shell("bash", script).run().exits(0).says(&[]);
        assert_eq!(
            ran_on(&sandbox).into_iter().collect::<BTreeSet<_>>().len(),
            4,
            "{script}"
        );
        sandbox.assert_exclusive();
        free_again(&sandbox);
    }
}

#[test]
fn a_lingering_reservation_is_not_reused_while_another_may_use_the_device() {
    // Each script lets its program's reservation linger, then prints its device and the
    // one of the next getgpu.
    let linger = "G=$(getgpu); CUDA_VISIBLE_DEVICES=$G sleep 0.2";
    for (what, script) in [
        ("a background subshell that will use it", format!("{linger}; (sleep 2; CUDA_VISIBLE_DEVICES=$G sleep 1) & H=$(getgpu); echo $G $H")),
        (
            "a daemon that kept the lease and not the variable",
            "G=$(getgpu); CUDA_VISIBLE_DEVICES=$G cudawrap -- sh -c 'sleep 0.3; env -u CUDA_VISIBLE_DEVICES sleep 3 &'; \
             H=$(getgpu); echo $G $H"
                .to_owned(),
        ),
        (
            "a subshell that its parent left behind",
            "mkfifo f; (export G=$(getgpu); (CUDA_VISIBLE_DEVICES=$G sleep 0.2; echo $G >mine; read -t 3 x <>f; CUDA_VISIBLE_DEVICES=$G sleep 1) &); \
             until [ -s mine ]; do sleep 0.01; done; sleep 0.2; H=$(getgpu); echo $(cat mine) $H"
                .to_owned(),
        ),
        (
            "the background subshell whose reservation it is",
            format!("({linger}; echo $G >mine; sleep 2) & until [ -s mine ]; do sleep 0.01; done; H=$(getgpu); echo $(cat mine) $H"),
        ),
        ("a program that may not be read", format!("{linger}; CUDA_VISIBLE_DEVICES=$G ./hidden 2 & sleep 0.2; H=$(getgpu); echo $G $H")),
    ] {
        let sandbox = Sandbox::new("mig4");
        let file = sandbox.path("work/hidden");
        std::fs::copy("/bin/sleep", &file).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o111)).unwrap();
        if nix::unistd::geteuid().is_root() && what.contains("may not be read") {
            // Root reads everything: as a user.
            let outcome = sandbox.shell("bash", &script).uid(OTHER).run();
            let devices: BTreeSet<&str> = outcome.exits(0).stdout.split_whitespace().collect();
            assert_eq!(devices.len(), 2, "{what}: {outcome:#?}");
            continue;
        }
        let outcome = sandbox.shell("bash", &script).run();
        let devices: BTreeSet<&str> = outcome.exits(0).stdout.split_whitespace().collect();
        assert_eq!(devices.len(), 2, "{what}: {outcome:#?}");
    }
}

#[test]
fn a_thread_between_two_of_its_programs_keeps_its_device() {
    if skip::lacks(&[skip::Need::Tool("python3")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    // Three threads: the second asks while the first is between two programs, the third
    // behind the second.
    let script = "\
import subprocess, os, threading
devices, paused, go_on = [], [threading.Event() for _ in range(3)], threading.Event()
def run(device):
    subprocess.run(['sleep', '0.2'], env=dict(os.environ, CUDA_VISIBLE_DEVICES=device), check=True)
def work(n):
    if n: paused[n - 1].wait()
    device = subprocess.check_output(['getgpu'], text=True).strip()
    devices.append(device)
    run(device)
    paused[n].set()
    go_on.wait()
    run(device)
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for thread in threads: thread.start()
paused[2].wait()
go_on.set()
for thread in threads: thread.join()
print(len(devices), len(set(devices)))
";
    let file = sandbox.file("work/threads.py", script, 0o644);
    sandbox
        .command("python3")
        .args([file.to_str().unwrap()])
        .run()
        .exits(0)
        .says(&[])
        .prints("3 3\n");
}

#[test]
fn a_holder_that_does_not_answer_keeps_its_device() {
    let sandbox = Sandbox::new("mig4");
    let script = "G=$(getgpu); CUDA_VISIBLE_DEVICES=$G sleep 0.2; \
                  kill -STOP $(pgrep -f -- \"--holder $G\"); H=$(getgpu); echo $G $H; kill -CONT $(pgrep -f -- \"--holder $G\")";
    let began = std::time::Instant::now();
    let outcome = sandbox.shell("bash", script).run();
    let devices: BTreeSet<&str> = outcome
        .exits(0)
        .says(&[])
        .stdout
        .split_whitespace()
        .collect();
    assert_eq!(devices.len(), 2, "{outcome:#?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn loops_in_pipelines_and_behind_older_jobs_need_one_device() {
    for script in [
        "for i in 1 2 3 4 5 6; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.05 | cat; done",
        "for i in 1 2 3 4 5 6; do d=$(getgpu | head -n 1); CUDA_VISIBLE_DEVICES=$d sim-cuda --run 0.05; done",
        "seq 6 | while read i; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.05; done | cat",
        "(sleep 30 & wait) & job=$!; sleep 0.1; \
         for i in 1 2 3 4 5 6; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run 0.05; done; kill $job",
    ] {
        let sandbox = Sandbox::new("mig4");
        sandbox.shell("bash", script).run().exits(0);
        let devices = ran_on(&sandbox);
        assert_eq!(
            (devices.len(), devices.iter().collect::<BTreeSet<_>>().len()),
            (6, 1),
            "{script}: {devices:?}"
        );
    }
}

#[test]
fn a_loop_of_shares_or_of_pairs_needs_one_place_for_each() {
    let sandbox = Sandbox::new("mig4");
    let each = |option: &str| {
        format!(
            "for i in 1 2 3; do CUDA_VISIBLE_DEVICES=$(getgpu -q {option}) sim-cuda --run 0.1 --tag $i; done; "
        )
    };
    let script = each("--share 1/2") + &each("-n 2") + &each("--share 1/2") + "getgpu --count-free";
    let outcome = sandbox.shell("bash", &script).run();
    assert!(
        outcome.exits(0).stdout.ends_with("\n1\n"),
        "a half and a pair are kept: {outcome:#?}"
    );
    let devices = ran_on(&sandbox);
    let of = |runs: std::ops::Range<usize>| devices[runs].iter().collect::<BTreeSet<_>>();
    assert_eq!(
        (of(0..3).len(), of(3..6).len(), of(6..9)),
        (1, 1, of(0..3)),
        "{devices:?}"
    );
}

#[test]
fn a_second_export_and_a_script_in_a_script_have_the_same_device() {
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
        let mut lines: Vec<&str> = outcome
            .stdout
            .lines()
            .filter(|line| !line.starts_with("RUN"))
            .collect();
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

#[test]
fn a_script_that_exports_keeps_its_device_between_its_programs() {
    let sandbox = Sandbox::new("h200x1");
    let builtins = "end=$((SECONDS+3)); while [ $SECONDS -lt $end ]; do :; done";
    let script = format!(
        "export CUDA_VISIBLE_DEVICES=$(getgpu --for 0.5); sim-cuda --run 0.2; {builtins}; sim-cuda --run 0.2"
    );
    let mut program = sandbox.shell("bash", &format!("{script}; true")).spawn();
    wait::until("it is reserved", || !sandbox.holders().is_empty());
    assert!(nobody_gets_one_before_the_end(&sandbox, &mut program) > 20);
    program.wait().exits(0);
    free_again(&sandbox);
    assert_eq!(ran_on(&sandbox).len(), 2);
}

#[test]
fn two_reservations_of_one_exporting_shell_both_end() {
    let sandbox = Sandbox::builder("mig4")
        .settings("linger = '500ms'")
        .build();
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu); a=$CUDA_VISIBLE_DEVICES; sim-cuda --run 1 & \
                  export CUDA_VISIBLE_DEVICES=$(getgpu --ignore-grant); [ $a = $CUDA_VISIBLE_DEVICES ] || : >other; \
                  sim-cuda --run 0.3; wait; : >over; read x; true";
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let program = sandbox.shell("bash", script).stdin(reader).spawn();
    sandbox.until_file("work/over");
    assert!(
        sandbox.path("work/other").exists(),
        "a grant that is ignored, and in use, is not given again"
    );
    sandbox.assert_clean(Duration::from_secs(3));
    drop(writer);
    program.wait().exits(0);
    assert_eq!(
        ran_on(&sandbox).into_iter().collect::<BTreeSet<_>>().len(),
        2
    );
}
