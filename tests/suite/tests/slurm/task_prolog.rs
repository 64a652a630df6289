//! The TaskProlog by hand and in a real Slurm: each of several tasks gets a device of its
//! job's grant, or an even share of one, for as long as it runs.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use getgpu_tests::slurm::{self, Cluster};
use harness::{Sandbox, skip, wait};

use crate::task_prolog_call::{NONE, STEP, called, device, given, script, told};

#[test]
fn a_task_is_told_one_device_that_is_kept_until_it_is_over() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let task = "dash \"$0\" >lines; echo $? >status; while ! [ -e go ]; do sleep 0.02; done";
    let start = sandbox
        .command("dash")
        .args(["-c", task, &script()])
        .directory(sandbox.path("work"));
    let mut task = start
        .env("SLURM_JOB_ID", "7")
        .env("GETGPU_SLURM", "yes")
        .spawn();
    let read =
        |name: &str| fs::read_to_string(sandbox.path(&format!("work/{name}"))).unwrap_or_default();
    wait::until("the script has exited", || {
        !read("status").is_empty() || task.is_over()
    });
    assert_eq!(read("status"), "0\n");
    let uuid = device(&sandbox, &read("lines"));
    let holders = sandbox.holders();
    let kept_for = format!("hold={}(dash)", task.pid());
    assert!(
        holders.len() == 1 && holders[0].words.contains(&kept_for),
        "{kept_for}: {holders:?}"
    );
    assert!(holders[0].words.contains(&uuid), "{uuid}: {holders:?}");
    sandbox.file("work/go", "", 0o644);
    task.wait().exits(0);
    sandbox.assert_clean(Duration::from_secs(1));
}

#[test]
fn a_grant_of_several_is_left_to_the_only_task_and_divided_among_several() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let four = "CUDA_VISIBLE_DEVICES=0,1,2,3";
    let list = "SLURM_STEP_TASKS_PER_NODE=4(x2),1,3(x2),1(x2)";
    let batch = "SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES=0,1,2,3";
    for alone in [
        format!("{STEP} {four} SLURM_STEP_TASKS_PER_NODE=1"),
        format!(
            "{STEP} {four} SLURM_STEP_TASKS_PER_NODE=1(x3) SLURM_NODEID=2 SLURM_TASKS_PER_NODE=4"
        ),
        format!("{STEP} {four} SLURM_TASKS_PER_NODE=1 SLURM_NTASKS=4"),
        format!("{STEP} {four} SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=4"),
        format!("{STEP} {four} SLURM_NTASKS=1"),
        format!("{STEP} {four} {list} SLURM_NODEID=2"),
        format!("{STEP} {four} {list} SLURM_NODEID=5"),
        format!("{STEP} {four} {list} SLURM_NODEID=6"),
        // Divided by Slurm: what two tasks have is not more than there is.
        format!("{STEP} CUDA_VISIBLE_DEVICES=2,3 SLURM_GPUS_ON_NODE=4 SLURM_STEP_TASKS_PER_NODE=2"),
        // Batch scripts.
        format!("{batch} SLURM_TASKS_PER_NODE=1"),
        format!("{batch} SLURM_TASKS_PER_NODE=4"),
        format!("{batch} SLURM_TASKS_PER_NODE=4 SLURM_NTASKS=4"),
        // One device is reserved, and the variable stays as Slurm has it.
        format!("{STEP} CUDA_VISIBLE_DEVICES=2 SLURM_STEP_TASKS_PER_NODE=1"),
    ] {
        called(&sandbox, &alone).exits(0).prints("");
        let all = called(&sandbox, &format!("{alone} tasks=all"));
        assert_eq!(
            all.exits(0).stdout.is_empty(),
            alone.starts_with(batch) && alone.contains("SLURM_NTASKS=4"),
            "{all:#?}"
        );
    }
    let list = "SLURM_STEP_TASKS_PER_NODE=4(x2),3";
    for several in [
        format!("{STEP} {four}"),
        format!("{STEP} {four} SLURM_STEP_TASKS_PER_NODE=4 SLURM_TASKS_PER_NODE=1"),
        format!("{STEP} {four} SLURM_STEP_TASKS_PER_NODE=4 SLURM_GPUS_ON_NODE=4"),
        format!("{STEP} {four} SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=1"),
        format!("{STEP} {four} {list} SLURM_NODEID=0 SLURM_NTASKS=1"),
        format!("{STEP} {four} {list} SLURM_NODEID=1 SLURM_NTASKS=1"),
        format!("{STEP} {four} {list} SLURM_NODEID=2 SLURM_NTASKS=1"),
        format!("{STEP} {four} SLURM_STEP_TASKS_PER_NODE=1,2(x3),1 SLURM_NODEID=3"),
        // The nearest two of four, for each of four tasks.
        format!("{STEP} CUDA_VISIBLE_DEVICES=2,3 SLURM_GPUS_ON_NODE=4 SLURM_STEP_TASKS_PER_NODE=4"),
        // Each of two has the one that Slurm gave it.
        format!("{STEP} CUDA_VISIBLE_DEVICES=3 SLURM_GPUS_ON_NODE=4 SLURM_STEP_TASKS_PER_NODE=2"),
        // Granted, but not by the variable; and none granted, but asked for.
        format!("{STEP} SLURM_STEP_GPUS=2,3 SLURM_GPUS_ON_NODE=2 SLURM_STEP_TASKS_PER_NODE=2"),
        format!("{STEP} GETGPU_SLURM=yes SLURM_STEP_TASKS_PER_NODE=1"),
        format!("{STEP} tasks=ungranted SLURM_STEP_TASKS_PER_NODE=1"),
        format!("{STEP} tasks=both"),
        format!("{STEP} tasks=all"),
        format!("{STEP} tasks=both {four} SLURM_STEP_TASKS_PER_NODE=4"),
        batch.to_owned(),
    ] {
        let uuid = given(&sandbox, &several);
        let places = if several.contains("=2,3") || several.contains("DEVICES=3") {
            2..4
        } else {
            0..4
        };
        assert!(sandbox.uuids()[places].contains(&uuid), "{several}: {uuid}");
    }
}

#[test]
fn more_tasks_than_devices_have_even_parts_whoever_asks() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let half = "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.45\n";
    for asks in ["", "GETGPU_SLURM=yes", "tasks=both", "tasks=all"] {
        for grant in [
            "CUDA_VISIBLE_DEVICES=2,3 SLURM_STEP_TASKS_PER_NODE=4",
            "CUDA_VISIBLE_DEVICES=2 SLURM_STEP_TASKS_PER_NODE=2",
        ] {
            let said = called(&sandbox, &format!("{STEP} {grant} {asks}"));
            assert!(
                said.exits(0).stdout.ends_with(half),
                "{asks} {grant}: {said:#?}"
            );
        }
    }
}

#[test]
fn odd_variables_do_not_keep_a_task_from_starting() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let odd = [
        "x",
        "*",
        "-1",
        "08",
        "1(x",
        "(x2)",
        "4(x08)",
        "4(xx)",
        ",",
        "$(id)",
        "99999999999999999999",
        "1;exit${IFS}3",
    ];
    for value in odd {
        for name in [
            "SLURM_STEP_TASKS_PER_NODE",
            "SLURM_TASKS_PER_NODE",
            "SLURM_STEP_NUM_TASKS",
            "SLURM_NTASKS",
            "SLURM_GPUS_ON_NODE",
        ] {
            let variables =
                format!("{STEP} CUDA_VISIBLE_DEVICES=0,1,2,3 SLURM_NODEID=1 {name}={value}");
            given(&sandbox, &variables);
        }
        // A place that is not known is none of the list's.
        let variables = format!(
            "{STEP} CUDA_VISIBLE_DEVICES=0,1 SLURM_STEP_TASKS_PER_NODE=1(x9) SLURM_NODEID={value}"
        );
        given(&sandbox, &variables);
        // A grant of nothing that exists, or of what does not come after a device.
        let said = told(
            &sandbox,
            &format!("{STEP} SLURM_STEP_TASKS_PER_NODE=1 CUDA_VISIBLE_DEVICES={value},{value}"),
        );
        assert!(
            said.exits(0)
                .stdout
                .lines()
                .all(|line| line.starts_with("export ")),
            "{said:#?}"
        );
    }
}

#[test]
fn a_job_without_a_grant_that_does_not_ask_gets_nothing_and_hears_nothing() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
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
        called(&sandbox, &nothing).exits(0).prints("");
    }
    for empty in ["", "-1", "NoDevFiles"] {
        called(&sandbox, &format!("{STEP} CUDA_VISIBLE_DEVICES={empty}"))
            .exits(0)
            .prints("");
    }
    // A node without GPUs: nothing to tell those who did not ask, whatever the site wants
    // for all.
    let sandbox = Sandbox::builder("gpus4").without_library().build();
    called(&sandbox, &format!("{STEP} strict=true"))
        .exits(0)
        .prints("");
    called(&sandbox, &format!("{STEP} tasks=both"))
        .exits(0)
        .prints(NONE);
}

#[test]
fn in_a_real_slurm_tasks_get_a_device_each_and_the_only_one_keeps_its_grant() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let uuids: BTreeSet<String> = sandbox.uuids().into_iter().collect();
    let cluster = Cluster::start(
        &sandbox,
        1,
        &format!("TaskProlog={}", slurm::hook(&sandbox, "task-prolog", "")),
    );
    // All tasks are there at the same time.
    let show = "echo $CUDA_VISIBLE_DEVICES; echo >>started; while [ $(wc -l <started) -lt $SLURM_NTASKS ]; do sleep 0.02; done";
    let seen = |words: &str| {
        sandbox.file("work/started", "", 0o666);
        let outcome = cluster.srun(words).args(["sh", "-c", show]).run();
        let mut lines: Vec<String> = outcome
            .exits(0)
            .says(&[])
            .stdout
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let each = seen("-n4 --gres=gpu:4");
    assert!(
        each.len() == 4 && each.iter().cloned().collect::<BTreeSet<_>>() == uuids,
        "{each:?}"
    );
    assert_eq!(seen("-n1 --gres=gpu:4"), ["0,1,2,3"]);
    assert_eq!(seen("-n2 --gpus-per-task=2"), ["0,1", "2,3"]);
    assert_eq!(seen("-n1 --gres=gpu:1"), ["0"]);
    // A job without GPUs takes nothing of what Slurm may give to the next.
    assert_eq!(seen("-n8"), [""; 8]);
    // More tasks than devices share them evenly, also where each task goes on through
    // cudawrap, which takes the part that is its own.
    for (options, counts) in [
        ("-n3 --gres=gpu:1", &[3][..]),
        ("-n6 --gres=gpu:4", &[1, 1, 2, 2]),
        ("-n8 --gres=gpu:4", &[2; 4]),
        ("-n8 --gres=gpu:4 cudawrap --", &[2; 4]),
        ("-n3 --gres=gpu:1 cudawrap --", &[3]),
    ] {
        let lines = seen(options);
        assert!(
            lines.iter().all(|line| uuids.contains(line)),
            "{options}: {lines:?}"
        );
        let on = |uuid| lines.iter().filter(|line| *line == uuid).count();
        let mut found: Vec<usize> = uuids.iter().map(on).filter(|count| *count > 0).collect();
        found.sort_unstable();
        assert_eq!(found, counts, "{options}: {lines:?}");
    }
    // Batch scripts keep their grant, and so do the only tasks in them.
    let script = "echo $CUDA_VISIBLE_DEVICES; srun -Q sh -c 'echo $CUDA_VISIBLE_DEVICES'";
    let jobs = ["--gres=gpu:4", "-n1 --gres=gpu:1"].map(|options| {
        let job = cluster.sbatch(options, script);
        cluster.until_empty();
        cluster.output(&job)
    });
    assert_eq!(jobs[0], "0,1,2,3\n0,1,2,3\n");
    assert_eq!(jobs[1], "0\n0\n");
    sandbox.assert_clean(Duration::from_secs(1));
}
