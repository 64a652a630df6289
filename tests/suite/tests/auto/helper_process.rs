//! The process that leases for a program at its first CUDA call, when signals, kills and
//! namespaces come in its way.

use std::fs;

use getgpu_tests::hooked::{cuda, holder, said, tells};
use getgpu_tests::{listing, mps, root};
use harness::{Sandbox, Signal, wait};

/// The number behind a word of /proc/PID/status.
fn status(pid: i32, word: &str) -> i32 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_subreaper_finds_nothing_of_a_helper_that_was_killed() {
    let sandbox = Sandbox::new("mig4");
    sandbox.faults("[[rule]]\nfunction = 'nvmlInit_v2'\ndoes = 'hang'\n");
    let words = "subreaper sigchld init signals wait-any";
    let program = cuda(&sandbox, words).spawn();
    let asks = |pid: &i32| mps::words(*pid, "cmdline") == ["getgpu", "--nvml-worker"];
    let mut asker = None;
    wait::until("NVML is asked", || {
        asker = sandbox.processes().into_iter().find(asks);
        asker.is_some()
    });
    let helper = status(status(asker.unwrap(), "PPid:"), "PPid:");
    assert!(helper > 1 && helper != i32::try_from(program.pid()).unwrap());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(helper), Signal::SIGKILL).unwrap();
    let outcome = program.wait();
    outcome.exits(0).mentions("it exited without an answer");
    assert_eq!(said(&outcome, "signals"), "0 reaped 0");
    assert_eq!(said(&outcome, "wait-any"), "ECHILD: No child processes");
    sandbox.assert_clean();
}

#[test]
fn a_program_that_handles_a_signal_keeps_its_place_in_the_queue() {
    let sandbox = Sandbox::new("h200x1");
    let holder = holder(&sandbox);
    let program = cuda(&sandbox, "usr1 init context signals");
    let program = program.env("CUDAWRAP_WAIT", "forever").spawn();
    wait::until("it is in the queue", || listing::waiting(&sandbox) == 1);
    // As a batch system tells all processes of a job.
    let group = nix::unistd::Pid::from_raw(program.pid().try_into().unwrap());
    nix::sys::signal::killpg(group, Signal::SIGUSR1).unwrap();
    holder.kill();
    let outcome = program.wait();
    tells(&outcome, &[("init", "0"), ("context", "0")]);
    assert_eq!(said(&outcome, "signals"), "1 reaped 0");
}

#[test]
fn no_helper_becomes_the_first_process_of_a_new_pid_namespace() {
    let Some(sandbox) = root("mig4") else { return };
    let words = "new-pids init visible fork uuid join child";
    let outcome = cuda(&sandbox, words).run();
    let line = "children of this program are in another pid namespace";
    outcome.exits(0).mentions(line);
    tells(&outcome, &[("new-pids", "0"), ("visible", "empty")]);
    // Else the kernel would refuse every fork from then on.
    assert_ne!(said(&outcome, "child"), "-1");
}
