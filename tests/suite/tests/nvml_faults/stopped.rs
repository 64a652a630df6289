//! A call that is stopped, as by Slurm's suspend, and goes on later: time in which it did not run
//! is none of its limits'.

use std::time::Duration;

use harness::{Running, Sandbox, Signal, wait};

/// Stops a process for so long, in which it does not end.
fn stopped(running: &mut Running, time: Duration) {
    running.signal(Signal::SIGSTOP);
    wait::throughout(time, "it is stopped", || !running.is_over());
    running.signal(Signal::SIGCONT);
}

#[test]
fn a_call_that_was_stopped_has_its_answer_all_the_same() {
    for line in ["getgpu --for 0", "cudawrap -- true"] {
        let sandbox = Sandbox::with("gpus4", "nvml_timeout = 6");
        sandbox.faults("latency = { init_ms = 1500 }");
        sandbox.log_calls();
        let mut call = sandbox.words(line).spawn();
        wait::until("NVML is asked", || !sandbox.calls().is_empty());
        stopped(&mut call, Duration::from_secs(7));
        call.wait().exits(0).says(&[]);
    }
}

#[test]
fn a_wait_goes_on_where_it_was_stopped() {
    let sandbox = Sandbox::new("h200x1");
    let occupant = sandbox.leased().spawn();
    sandbox.until_running(1);
    let mut waiter = sandbox.words("cudawrap --wait=8s -- true").spawn();
    wait::until("it waits", || sandbox.line("--queue --json") != "[]");
    stopped(&mut waiter, Duration::from_secs(9));
    // Its 8 s are not over.
    wait::throughout(Duration::from_secs(2), "it waits on", || !waiter.is_over());
    drop(occupant);
    waiter.wait().exits(0);
}
