//! An epilog that was killed, or that could not read all holders on a busy machine: what it
//! leaves comes back with the next prolog, however young it is, and is never a job's that
//! runs.

use getgpu_tests::{OTHER, slurm};
use harness::skip::{self, Need};
use harness::{Outcome, Sandbox, wait};

use crate::hook_calls::{counts, hook, is_called, job, mig4, prolog, quiet, sleeper};

fn parts(sandbox: &Sandbox) -> usize {
    counts(sandbox).iter().sum()
}

/// The epilog of a job, with something done to its system calls.
fn epilog_with(sandbox: &Sandbox, strace: &str, number: &str) -> Outcome {
    let script = slurm::hook_lines(sandbox, "epilog", "");
    let variables = format!("SLURM_JOB_ID={number} SLURM_JOB_UID={OTHER}");
    let line = format!("env -i {variables} strace -f -qq -o /dev/null {strace} /bin/sh -c");
    sandbox.words(&line).args([script]).directory("/").run()
}

/// One that is killed when it is about to end the job's holder.
fn killed_epilog(sandbox: &Sandbox, number: &str) {
    let kill = "-e inject=pidfd_send_signal:signal=KILL";
    epilog_with(sandbox, kill, number);
    assert_eq!(sandbox.beside_lock(), [format!("ended-{number}")]);
}

/// Four devices with room for parts; none: it has been said.
fn traced() -> Option<Sandbox> {
    (!skip::lacks(&[Need::Tool("strace")])).then(mig4).flatten()
}

#[test]
fn the_next_prolog_does_the_rest_at_once() {
    let Some(sandbox) = traced() else { return };
    let (dead, next) = (job(0), job(1));
    quiet(prolog(&sandbox, &dead));
    killed_epilog(&sandbox, &dead);
    assert_eq!(parts(&sandbox), 1);
    let said = hook(&sandbox, "prolog", "", &next, "").wait();
    said.exits(0).prints("").says(&[&format!(
        "getgpu prolog: slurm-{dead}: released, its epilog was interrupted"
    )]);
    assert_eq!(parts(&sandbox), 0);
    assert!(sandbox.beside_lock().is_empty());
    sandbox.assert_clean();
}

/// The job itself, requeued: it has one part, and not the last start's as well.
#[test]
fn a_job_that_starts_again_has_one_part() {
    let Some(sandbox) = traced() else { return };
    quiet(prolog(&sandbox, &job(0)));
    killed_epilog(&sandbox, &job(0));
    let said = prolog(&sandbox, &job(0)).wait();
    said.exits(0).mentions("its epilog was interrupted");
    assert_eq!(parts(&sandbox), 1);
    assert!(sandbox.beside_lock().is_empty());
    // Another prolog finds nothing to do.
    quiet(hook(&sandbox, "prolog", "", &job(1), ""));
    assert_eq!(parts(&sandbox), 1);
}

/// slurmd leaves out the prolog of some jobs that start again.
#[test]
fn a_job_that_runs_again_keeps_what_its_epilog_left() {
    let Some(sandbox) = traced() else { return };
    let number = job(0);
    quiet(prolog(&sandbox, &number));
    killed_epilog(&sandbox, &number);
    let title = format!("slurmstepd: [{number}.extern]");
    let running = sleeper(&sandbox, "slurmstepd", &title).spawn();
    let pid = running.pid().try_into().unwrap();
    wait::until("the step runs", || is_called(pid, "slurmstepd"));
    quiet(hook(&sandbox, "prolog", "", &job(1), ""));
    assert_eq!(parts(&sandbox), 1);
    drop(running);
    let said = hook(&sandbox, "prolog", "", &job(1), "").wait();
    said.exits(0).mentions("its epilog was interrupted");
    assert_eq!(parts(&sandbox), 0);
}

/// Reading the holder's command line takes longer than a search waits for it.
#[test]
fn an_epilog_that_cannot_read_a_holder_says_so() {
    let Some(sandbox) = traced() else { return };
    let number = job(0);
    quiet(prolog(&sandbox, &number));
    let holder = sandbox.holders()[0].pid;
    let late = format!("-P /proc/{holder}/cmdline -e inject=read:delay_enter=1s");
    let said = epilog_with(&sandbox, &late, &number);
    // How many there are depends on what other tests hold for this user.
    let unread = "could not be read in time, and one may be the job's";
    let said = said.exits(0).prints("").mentions(unread);
    said.mentions(&format!("getgpu epilog: job {number}: "));
    assert_eq!(sandbox.beside_lock(), [format!("ended-{number}")]);
    let said = hook(&sandbox, "prolog", "", &job(1), "").wait();
    said.exits(0).mentions("its epilog was interrupted");
    assert_eq!(parts(&sandbox), 0);
    assert!(sandbox.beside_lock().is_empty());
}
