//! The grant of a job's only task: all its devices are the task's, whether Slurm names
//! them in CUDA_VISIBLE_DEVICES or not, and none of them is another user's.

use getgpu_tests::OTHER;
use harness::Signal;
use harness::skip::{self, Need};

use crate::task_prolog_call::{STEP, beside, called, given, gpus4, hidden, script, told};

/// The only task on its node.
const ALONE: &str = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE=1";

#[test]
fn each_device_of_a_grant_is_looked_at() {
    let Some(sandbox) = gpus4() else { return };
    let stranger = sandbox.leased().visible(&sandbox.uuids()[2]).spawn();
    sandbox.until_running(1);
    let grant = format!("{ALONE} CUDA_VISIBLE_DEVICES=0,1,2");
    hidden(&beside(&sandbox, &grant, ""), "1 of 3 in use");
    beside(&sandbox, &grant, "taken = 'run'")
        .exits(0)
        .prints("")
        .mentions("not reserved, CUDA_VISIBLE_DEVICES stays 0,1,2: too few free devices");
    // Not of its grant.
    beside(&sandbox, &format!("{ALONE} CUDA_VISIBLE_DEVICES=0,1"), "").answers("");
    drop(stranger);
}

#[test]
fn a_grant_that_slurm_does_not_name_is_named_or_hidden() {
    let Some(sandbox) = gpus4() else { return };
    let uuids = sandbox.uuids();
    #[rustfmt::skip]
    let cases = [
        ("SLURM_STEP_GPUS=2 SLURM_GPUS_ON_NODE=1", &uuids[2..3]),
        ("SLURM_STEP_GPUS=2,3 SLURM_GPUS_ON_NODE=2", &uuids[2..]),
        ("SLURM_STEP_GPUS=3 SLURM_JOB_GPUS=1,3 SLURM_GPUS_ON_NODE=1", &uuids[3..]),
    ];
    for (variables, expected) in cases {
        let line = format!("export CUDA_VISIBLE_DEVICES={}\n", expected.join(","));
        called(&sandbox, &format!("{ALONE} {variables}")).answers(&line);
    }
    // Two of four, and no word which.
    for tasks in ["1", "2"] {
        let step = format!("{STEP} SLURM_STEP_TASKS_PER_NODE={tasks} SLURM_GPUS_ON_NODE=2");
        hidden(
            &told(&sandbox, &step),
            "nothing says for certain which they are",
        );
    }
}

#[test]
fn what_other_steps_of_the_job_have_is_not_somebody_elses() {
    let Some(sandbox) = gpus4() else { return };
    let first = "dash \"$0\" >lines && touch started; while ! [ -e go ]; do sleep 0.02; done";
    let line = format!("{ALONE} CUDA_VISIBLE_DEVICES=0 dash -c");
    let first = sandbox.words(&line).args([first, &script()]).spawn();
    sandbox.until_file("work/started");
    let both = "SLURM_STEP_TASKS_PER_NODE=1 CUDA_VISIBLE_DEVICES=0,1";
    let ask = |job: &str| beside(&sandbox, &format!("{job} {both}"), "");
    ask("SLURM_JOB_ID=7 SLURM_STEP_ID=1").answers("");
    hidden(&ask("SLURM_JOB_ID=8 SLURM_STEP_ID=0"), "1 of 2 in use");
    first.signal(Signal::SIGKILL);
}

/// Whether NVML lists what a task may not open: in real tasks it does not.
const LISTED: &str = "";
const HIDDEN: &str = "closed_hidden = true";

/// Slurm binds each task to a device of its own and names the first one to all of them
/// (`--gpus-per-task=1` with AutoDetect=nvml and ConstrainDevices=yes). What a task may open
/// is here a matter of modes.
#[test]
fn a_task_has_the_device_that_it_may_open_whatever_its_variable_names() {
    for (faults, closed) in [
        (LISTED, "this process may not open its device nodes"),
        (HIDDEN, "no such device on this node"),
    ] {
        a_task_has_the_device_that_it_may_open(faults, closed);
    }
}

fn a_task_has_the_device_that_it_may_open(faults: &str, closed: &str) {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let Some(sandbox) = gpus4() else { return };
    let uuids = sandbox.uuids();
    sandbox.faults(faults);
    let nodes = "mount -t tmpfs -o mode=755 none /dev && mknod -m 666 /dev/null c 1 3 && \
        for n in 0 1 2 3; do mknod -m 600 /dev/nvidia$n c 195 $n; done";
    let task = |open: &str, named: &str, tasks: usize, words: &str| {
        let user = format!("setpriv --reuid={OTHER} --regid={OTHER} --clear-groups");
        let slurm = format!(
            "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_PROCID=1 \
             SLURM_STEP_TASKS_PER_NODE={tasks}"
        );
        let script = format!(
            "{nodes} && (cd /dev && chmod 666 {open}) && \
             exec {user} env {slurm} CUDA_VISIBLE_DEVICES={named} {words}"
        );
        sandbox.apart(&script).run()
    };
    let print = "cudawrap -- printenv CUDA_VISIBLE_DEVICES";
    let first = &uuids[0];
    let said = task("nvidia3", first, 4, print);
    said.exits(0).prints(&format!("{}\n", uuids[3]));
    let line = format!(
        "cudawrap: CUDA_VISIBLE_DEVICES={first}: this task may not open that; it was given {}",
        uuids[3]
    );
    said.says(&[&line]);
    // Its own one, and one of several: nothing is certain there.
    task("nvidia0", first, 4, print).answers(&format!("{first}\n"));
    let two = task("nvidia2 nvidia3", first, 4, print);
    two.refuses(125, closed);
    two.mentions("try --gpu-bind=none");
    // Two of the job, of which this task has one and another one.
    let both = format!("{first},{}", uuids[1]);
    let wrapped = "cudawrap -n 2 -- printenv CUDA_VISIBLE_DEVICES";
    let said = task("nvidia1 nvidia2", &both, 2, wrapped);
    said.exits(0)
        .prints(&format!("{},{}\n", uuids[1], uuids[2]));
    // The TaskProlog gives it to the only task, and to one of several.
    for tasks in [1, 2] {
        let hook = task("nvidia3", first, tasks, &format!("dash '{}'", script()));
        let line = format!("export CUDA_VISIBLE_DEVICES={}\n", uuids[3]);
        hook.exits(0);
        assert!(hook.stdout.starts_with(&line), "{hook:#?}");
    }
    // None of the site's own.
    sandbox.set_settings(&format!("allowed = ['{}']", uuids[3]));
    task("nvidia3", first, 4, print).refuses(125, closed);
    let both = task("nvidia2 nvidia3", first, 4, print);
    both.exits(0).prints(&format!("{}\n", uuids[2]));
}

/// What the first task has reserved of it is not the second one's, although both are of the
/// same user and job, and the variable names it to both.
#[test]
fn a_task_is_not_given_what_another_task_of_its_job_has() {
    if skip::lacks(&[Need::Mounts]) {
        return;
    }
    let Some(sandbox) = gpus4() else { return };
    let uuids = sandbox.uuids();
    sandbox.faults(HIDDEN);
    let task = format!(
        "setpriv --reuid={OTHER} --regid={OTHER} --clear-groups env SLURM_JOB_ID=7 SLURM_STEP_ID=0 \
         SLURM_STEP_TASKS_PER_NODE=2 SLURM_GPUS_ON_NODE=2 CUDA_VISIBLE_DEVICES={}",
        uuids[0]
    );
    let script = format!(
        "mount -t tmpfs -o mode=755 none /dev && mknod -m 666 /dev/null c 1 3 && \
         for n in 0 1 2 3; do mknod -m 600 /dev/nvidia$n c 195 $n; done && cd /dev && \
         chmod 666 nvidia0 && {task} SLURM_PROCID=0 SLURM_LOCALID=0 getgpu --hold=$$ && \
         chmod 600 nvidia0 && chmod 666 nvidia3 && \
         {task} SLURM_PROCID=1 SLURM_LOCALID=1 getgpu --hold=$$"
    );
    let said = sandbox.apart(&script).run();
    said.exits(0)
        .prints(&format!("{}\n{}\n", uuids[0], uuids[3]));
}

/// One sick GPU of a grant takes no task, and the other one is given.
#[test]
fn a_task_gets_the_granted_device_that_is_well() {
    let Some(sandbox) = gpus4() else { return };
    let uuids = sandbox.uuids();
    let two = format!("{},{}", uuids[0], uuids[1]);
    let task = |more: &str| format!("{STEP} SLURM_STEP_TASKS_PER_NODE=2 {more}");
    // Lost, and one that needs a reset but answers.
    let faults = [
        "[[rule]]\nfunction = '*'\ngpu = 0\nreturns = 15\n",
        "[[health]]\ngpu = 0\nrows_failed = true\n",
    ];
    for fault in faults {
        sandbox.faults(fault);
        let visible = task(&format!("CUDA_VISIBLE_DEVICES={two}"));
        assert_eq!(given(&sandbox, &visible), uuids[1], "{fault}");
        let numbers = task("SLURM_STEP_GPUS=0,1 SLURM_GPUS_ON_NODE=2");
        assert_eq!(given(&sandbox, &numbers), uuids[1], "{fault}");
        let line = "cudawrap -- printenv CUDA_VISIBLE_DEVICES";
        let ran = sandbox.words(&format!("{visible} {line}")).run();
        ran.answers(&format!("{}\n", uuids[1]));
    }
}
