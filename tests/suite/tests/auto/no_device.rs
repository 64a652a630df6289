//! Where there is no device for a program that nobody wrapped: all are hidden from it, or
//! what the site has set, or it waits in line. Whatever fails is one line and no guess.

use std::time::{Duration, Instant};

use getgpu_tests::hooked::{VARIABLE, all_said, cuda, holder, said, tells};
use getgpu_tests::{listing, own_user};
use harness::{Sandbox, wait};

/// Longer than the library waits for cudawrap where NVML has one second.
const LONGER: Duration = Duration::from_secs(7);

#[test]
fn where_none_is_free_the_site_decides() {
    let sandbox = Sandbox::new("h200x1");
    let holder = holder(&sandbox);
    let hint = "cudawrap: hint: getgpu --list shows who holds what; with CUDAWRAP_WAIT=10m a program waits";
    let user = own_user();
    let line = |what: &str| format!("cudawrap: no free device: 1 of 1 in use ({user} 1){what}");
    let hidden = line(": CUDA finds no device in this program");
    let outcome = cuda(&sandbox, "init visible init").run();
    outcome.exits(0).says(&[&hidden, hint]);
    assert_eq!(all_said(&outcome, "init"), ["100", "100"]);
    assert_eq!(said(&outcome, "visible"), "empty");
    sandbox.set_settings("auto_none = 'run'");
    let outcome = cuda(&sandbox, "init visible").run();
    let runs = line(": this program may use a device that somebody else has");
    outcome.says(&[&runs, hint]);
    tells(&outcome, &[("init", "0"), ("visible", "unset")]);
    sandbox.set_settings("auto_none = 'exit'");
    let outcome = cuda(&sandbox, "init").run();
    outcome.exits(75).prints("").says(&[&line(""), hint]);
    // A call that is repeated takes what has become free.
    sandbox.set_settings("");
    let words = "init until=go init visible context";
    let program = cuda(&sandbox, words).spawn();
    wait::until("it has been told", || program.stdout().contains("init 100"));
    holder.kill();
    sandbox.file("work/go", "", 0o644);
    let outcome = program.wait();
    assert_eq!(all_said(&outcome, "init"), ["100", "0"]);
    assert_eq!(said(&outcome, "context"), "0");
    assert_eq!(sandbox.uuids(), [said(&outcome, "visible")]);
}

#[test]
fn a_job_that_was_given_no_gpu_sees_none() {
    for setting in ["hide", "run", "exit"] {
        let settings = format!("without_grant = 'none'\nauto_none = '{setting}'");
        let sandbox = Sandbox::with("gpus4", &settings);
        let job = cuda(&sandbox, "init visible init").env("SLURM_JOB_ID", "7");
        let outcome = job.run();
        outcome.exits(0).says(&[]);
        assert_eq!(all_said(&outcome, "init"), ["100", "100"]);
        assert_eq!(said(&outcome, "visible"), "empty");
        sandbox.assert_clean();
    }
}

#[test]
fn a_first_call_waits_in_the_queue_where_that_is_set() {
    // An empty variable is none.
    #[rustfmt::skip]
    let cases = [
        ("auto_wait = '1m'", ""), ("", "forever"), ("auto_wait = '0'\nnvml_timeout = '1s'", "60"),
    ];
    for (settings, variable) in cases {
        let sandbox = Sandbox::with("h200x1", settings);
        let holder = holder(&sandbox);
        let command = cuda(&sandbox, "init context mask wait-any");
        let command = command.env("CUDAWRAP_WAIT", variable);
        let began = Instant::now();
        let mut waiter = command.spawn();
        wait::until("it is in the queue", || listing::waiting(&sandbox) == 1);
        let queue = &listing::json(&sandbox)["queue"];
        assert_eq!(queue[0]["pid"], waiter.pid(), "{queue}");
        if variable == "60" {
            // The queue is not bound by the time that NVML has.
            wait::until("it has waited longer", || began.elapsed() > LONGER);
        }
        assert!(!waiter.is_over());
        holder.kill();
        let outcome = waiter.wait();
        tells(&outcome, &[("init", "0"), ("context", "0")]);
        assert!(said(&outcome, "mask").contains("Threads:1"), "{outcome:#?}");
    }
    // Who is killed while it waits leaves nothing.
    let sandbox = Sandbox::new("h200x1");
    let holder = holder(&sandbox);
    let waiter = cuda(&sandbox, "init").env("CUDAWRAP_WAIT", "forever");
    let waiter = waiter.spawn();
    wait::until("it is in the queue", || listing::waiting(&sandbox) == 1);
    waiter.kill();
    holder.kill();
    wait::until("its helpers are gone", || sandbox.processes().is_empty());
    sandbox.assert_clean();
}

#[test]
fn what_fails_is_one_line_and_no_guess() {
    let failing = |sandbox: &Sandbox, part: &str| {
        let began = Instant::now();
        let outcome = cuda(sandbox, "init visible wait-any").run();
        let hidden = ": CUDA finds no device in this program";
        outcome.exits(0).mentions(part).mentions(hidden);
        assert!(outcome.stderr.lines().count() <= 2, "{outcome:#?}");
        tells(&outcome, &[("visible", "empty"), ("init", "100")]);
        assert!(said(&outcome, "wait-any").starts_with("ECHILD"));
        began.elapsed()
    };
    let sandbox = Sandbox::with("mig4", "nvml_timeout = '1s'");
    sandbox.faults("[[rule]]\nfunction = 'nvmlInit_v2'\ndoes = 'hang'\n");
    let took = failing(&sandbox, "NVML did not answer within 1 s");
    assert!(took < Duration::from_secs(4), "{took:?}");
    wait::until("no helper is left", || sandbox.processes().is_empty());

    let sandbox = Sandbox::new("mig4");
    std::fs::remove_file(sandbox.path("bin/getgpu")).unwrap();
    failing(&sandbox, "getgpu");
    // A cudawrap that ends, and one that never does.
    #[rustfmt::skip]
    let cases = [
        ("exit 3", "it exited without an answer"), ("exec sleep 1000", "no answer within 6 s"),
    ];
    for (body, part) in cases {
        let sandbox = Sandbox::with("mig4", "nvml_timeout = '1s'");
        std::fs::remove_file(sandbox.path("bin/cudawrap")).unwrap();
        sandbox.file("bin/cudawrap", &format!("#!/bin/sh\n{body}\n"), 0o755);
        let took = failing(&sandbox, part);
        assert!(took < Duration::from_secs(9), "{took:?}");
        wait::until("no helper is left", || sandbox.processes().is_empty());
    }
    let sandbox = Sandbox::new("mig4");
    std::fs::remove_file(sandbox.lock()).unwrap();
    std::fs::write(sandbox.lock(), "").unwrap();
    failing(&sandbox, "it is not a FIFO");
    let sandbox = Sandbox::with("mig4", "auto = 'perhaps'");
    failing(&sandbox, "perhaps: not one of on, off");
}

#[test]
fn without_the_library_or_a_driver_nothing_is_said() {
    let sandbox = Sandbox::new("mig4");
    let command = cuda(&sandbox, "init visible");
    let outcome = command.env(VARIABLE, "/opt/not/here/libcudawrap.so").run();
    outcome.exits(0).says(&[]);
    tells(&outcome, &[("init", "0"), ("visible", "unset")]);
    let sandbox = Sandbox::new("none");
    let outcome = cuda(&sandbox, "init visible").run();
    outcome.exits(0).says(&[]);
    tells(&outcome, &[("init", "100"), ("visible", "unset")]);
}
