//! Settings for calls that people type say nothing of what Slurm has counted: a task keeps its
//! grant whole and for as long as it runs, tasks that start together do not wait, and a part
//! is of one job.

use std::time::Duration;

use getgpu_tests::{OTHER, listing};
use harness::skip::{self, Need};
use harness::{Running, Sandbox, wait};

use crate::hook_calls::{hook, job, quiet};
use crate::task_prolog_call::{beside, gpus4, hidden, script, told};

/// The only task of a step on its node, which runs until it is dropped.
fn only_task(sandbox: &Sandbox, device: &str) -> Running {
    let variables = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=1";
    let line = format!("{variables} CUDA_VISIBLE_DEVICES={device} dash -c");
    let script_of_task = "dash \"$0\" && touch started; exec sleep 1000";
    let _ = std::fs::remove_file(sandbox.path("work/started"));
    let task = sandbox.words(&line).args([script_of_task, &script()]);
    let task = task.limit(Duration::MAX).spawn();
    sandbox.until_file("work/started");
    task
}

#[test]
fn a_task_keeps_all_of_its_grant_whatever_is_preferred() {
    let Some(sandbox) = gpus4() else { return };
    let granted = &sandbox.uuids()[2];
    let preferred = [
        "share = '1/2'",
        "count = 2",
        "gpu = [0]",
        "min_memory = '900G'",
        "type = 'mig'",
    ];
    for settings in preferred {
        sandbox.set_settings(settings);
        let task = only_task(&sandbox, "2");
        let listing = listing::json(&sandbox);
        for device in listing::devices(&listing) {
            let held: Vec<_> = device["holders"].as_array().unwrap().iter().collect();
            if device["uuid"] == **granted {
                assert!(
                    held.len() == 1 && held[0]["share"] == 1.0,
                    "{settings}: {device}"
                );
            } else {
                assert!(held.is_empty(), "{settings}: {device}");
            }
        }
        drop(task);
        wait::until("its reservation ends", || !sandbox.locked());
    }
}

/// `excluded` is the site's word on a device, also in jobs.
#[test]
fn a_task_with_several_devices_has_those_that_are_not_excluded() {
    let Some(sandbox) = gpus4() else { return };
    let uuids = sandbox.uuids();
    sandbox.set_settings(&format!("excluded = ['{}']", uuids[1]));
    let alone = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=1";
    let outcome = told(&sandbox, &format!("{alone} CUDA_VISIBLE_DEVICES=0,1,2"));
    let left = format!("export CUDA_VISIBLE_DEVICES={},{}\n", uuids[0], uuids[2]);
    let line = format!(
        "getgpu task-prolog: {}: excluded by the administrator: ",
        uuids[1]
    );
    outcome.exits(0).prints(&left).mentions(&line);
    // What is left is another program's, and the site lets the task run.
    let stranger = sandbox.leased().visible(&uuids[0]).spawn();
    sandbox.until_running(1);
    let variables = format!("{alone} CUDA_VISIBLE_DEVICES=0,1,2");
    let outcome = beside(&sandbox, &variables, "taken = 'run'");
    let line = left.replace(
        "export CUDA_VISIBLE_DEVICES=",
        "not reserved, CUDA_VISIBLE_DEVICES is ",
    );
    outcome.exits(0).prints(&left).mentions(line.trim_end());
    drop(stranger);
    sandbox.kill_programs();
    // What a batch system granted alone is used.
    let outcome = told(&sandbox, &format!("{alone} CUDA_VISIBLE_DEVICES=1"));
    outcome.exits(0).prints("");
    let task = only_task(&sandbox, "0,1,2");
    let states = listing::states(&sandbox);
    assert_eq!(states, ["reserved", "free", "reserved", "free"]);
    drop(task);
}

#[test]
fn tasks_of_one_step_do_not_wait() {
    let Some(sandbox) = gpus4() else { return };
    sandbox.set_settings("wait = '1h'");
    let uuids = sandbox.uuids();
    let strangers = [0, 1].map(|place: usize| sandbox.leased().visible(&uuids[place]).spawn());
    sandbox.until_running(2);
    let task = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=2 SLURM_LOCALID=0 \
                SLURM_PROCID=0 CUDA_VISIBLE_DEVICES=0,1";
    hidden(&beside(&sandbox, task, ""), "2 of 2 in use");
    drop(strangers);
}

#[test]
fn limits_of_holds_do_not_end_what_a_task_has() {
    let Some(sandbox) = gpus4() else { return };
    sandbox.set_settings("max_hold = '1s'\nmax_idle = '2s'\nidle_action = 'end'");
    let monitor = sandbox.words("getgpu --monitor");
    let monitor = monitor.limit(Duration::MAX).spawn();
    let task = only_task(&sandbox, "2");
    let granted = &sandbox.uuids()[2];
    let is_held = || {
        let listing = listing::json(&sandbox);
        let device = listing::device(&listing, granted);
        device["holders"].as_array().unwrap().len() == 1
    };
    assert!(is_held());
    // What began later and has a limit ends before it.
    sandbox.set_settings("max_idle = '2s'\nidle_action = 'end'");
    let held = sandbox.shell("sh", "getgpu --hold && touch held && exec sleep 1000");
    let held = held.limit(Duration::MAX).spawn();
    sandbox.until_file("work/held");
    wait::until("the typed one ends", || sandbox.holders().len() == 1);
    assert!(is_held());
    drop((task, held, monitor));
}

#[test]
fn a_prolog_waits_as_long_as_its_own_setting_says() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::with("h200x1", "max_wait = '1s'");
    let stranger = sandbox.leased().spawn();
    sandbox.until_running(1);
    let waiting = hook(&sandbox, "prolog", "wait = '80s'", &job(0), "gpushare4");
    wait::until("it waits", || sandbox.line("--queue --json") != "[]");
    wait::throughout(Duration::from_secs(2), "it goes on waiting", || {
        sandbox.line("--queue --json") != "[]"
    });
    drop(stranger);
    sandbox.kill_programs();
    quiet(waiting);
    assert_eq!(sandbox.holders().len(), 1);
}

/// Two jobs of one user have a half of one device each.
#[test]
fn a_program_of_a_job_runs_in_the_part_of_its_own_job() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("h200x1");
    let uuid = &sandbox.uuids()[0];
    let jobs = [job(0), job(1)];
    for job in &jobs {
        quiet(hook(&sandbox, "prolog", "", job, "gpushare2"));
    }
    let program = |job: &str, words: &str| {
        let line = format!("SLURM_JOB_ID={job} SLURM_STEP_ID=0 cudawrap -- sim-cuda {words}");
        sandbox.words(&line).visible(uuid).uid(OTHER)
    };
    let first = program(&jobs[0], "--max 2 --run forever").spawn();
    sandbox.until_running(1);
    // Its job's part is used; that of the other job is the other job's.
    program(&jobs[0], "--max 2").run().refuses(75, "in use by");
    let second = program(&jobs[1], "--max 2 --run forever").spawn();
    sandbox.until_running(2);
    drop((first, second));
    sandbox.kill_programs();
    for job in &jobs {
        quiet(hook(&sandbox, "epilog", "", job, ""));
    }
    sandbox.assert_clean();
}
