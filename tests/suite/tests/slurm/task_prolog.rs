//! The TaskProlog by hand and in a real Slurm: each of several tasks gets a device of its
//! job's grant, or an even share of one, for as long as it runs.

use std::collections::BTreeSet;
use std::fs;

use getgpu_tests::slurm::{self, Cluster};
use harness::{Sandbox, wait};

use crate::task_prolog_call::{NONE, STEP, called, device, given, gpus4, script};

#[test]
fn a_task_is_told_one_device_that_is_kept_until_it_is_over() {
    let Some(sandbox) = gpus4() else { return };
    let task = "dash \"$0\" >lines; echo $? >status; while ! [ -e go ]; do sleep 0.02; done";
    let start = sandbox.command("dash").args(["-c", task, &script()]);
    let start = start.env("SLURM_JOB_ID", "7");
    let mut task = start.env("GETGPU_SLURM", "yes").spawn();
    let read =
        |name: &str| fs::read_to_string(sandbox.path(&format!("work/{name}"))).unwrap_or_default();
    wait::until("the script has exited", || {
        !read("status").is_empty() || task.is_over()
    });
    assert_eq!(read("status"), "0\n");
    let uuid = device(&sandbox, &read("lines"));
    let holders = sandbox.holders();
    let kept_for = format!("hold={}(dash)", task.pid());
    assert_eq!(holders.len(), 1);
    for word in [kept_for, uuid] {
        assert!(holders[0].words.contains(&word), "{word}: {holders:?}");
    }
    sandbox.file("work/go", "", 0o644);
    task.wait().exits(0);
    sandbox.assert_clean();
}

/// How a grant is divided by Slurm's variables is a table of unit tests.
#[test]
#[rustfmt::skip]
fn a_grant_of_several_is_left_to_a_lone_task_or_else_divided() {
    let Some(sandbox) = gpus4() else { return };
    let four = "CUDA_VISIBLE_DEVICES=0,1,2,3";
    let batch = "SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES=0,1,2,3";
    for alone in [
        format!("{STEP} {four} SLURM_STEP_TASKS_PER_NODE=1"),
        // One device is reserved, and the variable stays as Slurm has it.
        format!("{STEP} CUDA_VISIBLE_DEVICES=2 SLURM_STEP_TASKS_PER_NODE=1"),
        format!("{batch} SLURM_TASKS_PER_NODE=4 SLURM_NTASKS=4"),
        // The same from Slurm 26.05 on.
        format!("{batch} SLURM_STEP_ID=-5 SLURM_TASKS_PER_NODE=4 SLURM_NTASKS=4"),
    ] {
        called(&sandbox, &alone).answers("");
        let all = called(&sandbox, &format!("{alone} tasks=all"));
        assert_eq!(all.exits(0).stdout.is_empty(), alone.starts_with(batch), "{all:#?}");
    }
    for (several, places) in [
        (format!("{STEP} {four} SLURM_STEP_TASKS_PER_NODE=4"), 0..4),
        // The nearest two of four, for each of four tasks.
        (format!("{STEP} CUDA_VISIBLE_DEVICES=2,3 SLURM_GPUS_ON_NODE=4 SLURM_STEP_TASKS_PER_NODE=4"), 2..4),
        // Each of two has the one that Slurm gave it.
        (format!("{STEP} CUDA_VISIBLE_DEVICES=3 SLURM_GPUS_ON_NODE=4 SLURM_STEP_TASKS_PER_NODE=2"), 3..4),
        // Granted, but not by the variable; and none granted, but asked for.
        (format!("{STEP} SLURM_STEP_GPUS=2,3 SLURM_GPUS_ON_NODE=2 SLURM_STEP_TASKS_PER_NODE=2"), 2..4),
        (format!("{STEP} GETGPU_SLURM=yes SLURM_STEP_TASKS_PER_NODE=1"), 0..4),
        (format!("{STEP} tasks=ungranted SLURM_STEP_TASKS_PER_NODE=1"), 0..4),
        (format!("{STEP} tasks=both"), 0..4),
        (format!("{STEP} tasks=all"), 0..4),
        (format!("{STEP} tasks=both {four} SLURM_STEP_TASKS_PER_NODE=4"), 0..4),
    ] {
        let uuid = given(&sandbox, &several);
        assert!(sandbox.uuids()[places].contains(&uuid), "{several}: {uuid}");
    }
}

#[test]
fn a_job_that_has_no_grant_nor_asks_gets_and_hears_nothing() {
    let Some(sandbox) = gpus4() else { return };
    let granted = "SLURM_STEP_TASKS_PER_NODE=2 CUDA_VISIBLE_DEVICES=0,1";
    for nothing in [
        STEP.to_owned(),
        format!("{STEP} SLURM_STEP_TASKS_PER_NODE=8"),
        "SLURM_JOB_ID=7".to_owned(),
        format!("{STEP} tasks=asked {granted}"),
        format!("{STEP} tasks=ungranted {granted}"),
        format!("{STEP} GETGPU_SLURM=no {granted}"),
        // A step without GPUs in a job that has some.
        format!("{STEP} SLURM_JOB_GPUS=0,1"),
    ] {
        called(&sandbox, &nothing).answers("");
    }
    for empty in ["", "-1", "NoDevFiles"] {
        called(&sandbox, &format!("{STEP} CUDA_VISIBLE_DEVICES={empty}")).answers("");
    }
    // Nothing keeps such a job from a GPU that another one has, but the site's word.
    sandbox.set_settings("without_grant = 'none'");
    for hidden in [
        STEP.to_owned(),
        format!("{STEP} GETGPU_SLURM=no"),
        "SLURM_JOB_ID=7".to_owned(),
        "SLURM_JOB_ID=7 SLURM_TASKS_PER_NODE=4 SLURM_NTASKS=4 tasks=both".to_owned(),
    ] {
        called(&sandbox, &hidden).answers(NONE);
    }
    for granted in [
        "SLURM_JOB_GPUS=0,1",
        "CUDA_VISIBLE_DEVICES=0,1 GETGPU_SLURM=no",
    ] {
        called(&sandbox, &format!("{STEP} {granted}")).answers("");
    }
    // A node without GPUs: nothing to tell those who did not ask, whatever the site wants
    // for all.
    let sandbox = Sandbox::builder("gpus4").without_library().build();
    called(&sandbox, &format!("{STEP} strict=true")).answers("");
    called(&sandbox, &format!("{STEP} tasks=both")).answers(NONE);
}

#[test]
fn real_slurm_tasks_get_a_device_each_and_a_lone_one_its_grant() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let uuids: BTreeSet<String> = sandbox.uuids().into_iter().collect();
    let cluster = Cluster::start(&sandbox, 1, &slurm::task_prolog(&sandbox, ""));
    // All tasks are there at the same time.
    let show = "echo $CUDA_VISIBLE_DEVICES; echo >>started; while [ $(wc -l <started) -lt $SLURM_NTASKS ]; do sleep 0.02; done";
    let asked = |wish: &str, words: &str| {
        sandbox.file("work/started", "", 0o666);
        let task = cluster.srun(words).args(["sh", "-c", show]);
        let outcome = task.env("GETGPU_SLURM", wish).run();
        let lines = outcome.exits(0).says(&[]).stdout.lines();
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let seen = |words: &str| asked("", words);
    let each = seen("-n4 --gres=gpu:4");
    assert!(each.len() == 4 && each.into_iter().eq(uuids.iter().cloned()));
    assert_eq!(seen("-n1 --gres=gpu:4"), ["0,1,2,3"]);
    assert_eq!(seen("-n2 --gpus-per-task=2"), ["0,1", "2,3"]);
    assert_eq!(seen("-n1 --gres=gpu:1"), ["0"]);
    // A job without GPUs takes nothing of what Slurm may give to the next.
    assert_eq!(seen("-n8"), [""; 8]);
    // Tasks that outnumber the devices share them evenly, also where each task goes on
    // through cudawrap, which takes the part that is its own, or its rank's.
    #[rustfmt::skip]
    let cases = [
        ("", "-n3 --gres=gpu:1", &[3][..]),
        ("yes", "-n6 --gres=gpu:4", &[1, 1, 2, 2]),
        ("", "-n8 --gres=gpu:4", &[2; 4]),
        ("", "-n8 --gres=gpu:4 cudawrap --", &[2; 4]),
        ("", "-n3 --gres=gpu:1 cudawrap --", &[3]),
        ("no", "-n8 --gres=gpu:4 cudawrap --", &[2; 4]),
        ("no", "-n6 --gres=gpu:4 cudawrap -q --", &[1, 1, 2, 2]),
        ("no", "-n3 --gres=gpu:4 cudawrap -q --", &[1; 3]),
        ("no", "-n4 --gpus-per-task=1 cudawrap --", &[1; 4]),
        ("no", "-n4 cudawrap --", &[1; 4]),
    ];
    for (wish, options, counts) in cases {
        let lines = asked(wish, options);
        let known = lines.iter().all(|line| uuids.contains(line));
        assert!(known, "{wish} {options}: {lines:?}");
        let on = |uuid| lines.iter().filter(|line| *line == uuid).count();
        let mut found: Vec<usize> = uuids.iter().map(on).filter(|count| *count > 0).collect();
        found.sort_unstable();
        assert_eq!(found, counts, "{wish} {options}: {lines:?}");
    }
    sandbox.assert_clean();
}
