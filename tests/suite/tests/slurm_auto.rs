//! The TaskProlog of `etc/slurm` without a word from site or job, by hand and in a real Slurm: a task gets a device of its own for as long as it
//! runs, and a grant of several devices that is the task's alone stays as it is.
#![allow(clippy::unwrap_used, reason = "a panic in a test is a failed test with a place")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use getgpu_tests::slurm::{self, Cluster};
use harness::{Outcome, Sandbox, skip, wait};

/// A task of a step, as Slurm tells it.
const STEP: &str = "SLURM_JOB_ID=7 SLURM_STEP_ID=0";

fn script() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../etc/slurm/task-prolog");
    path.display().to_string()
}

/// What the script prints with these variables, split at blanks, which a failed test shows. Its parent, the future task, is over at once.
#[track_caller]
fn called(sandbox: &Sandbox, variables: &str) -> Outcome {
    let words = ["-c", "dash \"$0\" || exit", &script(), variables];
    let set = |command: harness::Command, pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        command.env(name, value)
    };
    let outcome = variables.split_ascii_whitespace().fold(sandbox.command("dash").args(words), set).run();
    outcome.says(&[]);
    sandbox.assert_clean(Duration::from_secs(2));
    outcome
}

/// The device of the only line.
#[track_caller]
fn device(sandbox: &Sandbox, lines: &str) -> String {
    let uuid = lines.strip_prefix("export CUDA_VISIBLE_DEVICES=").and_then(|line| line.strip_suffix('\n'));
    let known = sandbox.uuids().into_iter().find(|known| Some(known.as_str()) == uuid);
    known.unwrap_or_else(|| panic!("not one line for one device: {lines:?}"))
}

/// The device of a task with these variables.
#[track_caller]
fn given(sandbox: &Sandbox, variables: &str) -> String {
    let outcome = called(sandbox, variables);
    assert_eq!((outcome.code(), outcome.stdout.lines().count()), (Some(0), 1), "{outcome:#?}");
    device(sandbox, &outcome.stdout)
}

#[test]
fn a_task_is_told_one_device_that_is_kept_until_it_is_over() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let task = "dash \"$0\" >lines; echo $? >status; while ! [ -e go ]; do sleep 0.02; done";
    let start = sandbox.command("dash").args(["-c", task, &script()]).directory(sandbox.path("work"));
    let mut task = start.env("SLURM_JOB_ID", "7").spawn();
    let read = |name: &str| fs::read_to_string(sandbox.path(&format!("work/{name}"))).unwrap_or_default();
    wait::until("the script is over", || !read("status").is_empty() || task.is_over());
    assert_eq!(read("status"), "0\n");
    let uuid = device(&sandbox, &read("lines"));
    let holders = sandbox.holders();
    let kept_for = format!("hold={}(dash)", task.pid());
    assert!(holders.len() == 1 && holders[0].words.contains(&kept_for), "{kept_for}: {holders:?}");
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
        format!("{STEP} {four} SLURM_STEP_TASKS_PER_NODE=1(x3) SLURM_NODEID=2 SLURM_TASKS_PER_NODE=4"),
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
    ] {
        called(&sandbox, &alone).exits(0).prints("");
        let all = called(&sandbox, &format!("{alone} GETGPU_SLURM_TASKS=all"));
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
        // One device, and none granted.
        format!("{STEP} CUDA_VISIBLE_DEVICES=2 SLURM_STEP_TASKS_PER_NODE=1"),
        format!("{STEP} SLURM_STEP_TASKS_PER_NODE=1"),
        batch.to_owned(),
    ] {
        let uuid = given(&sandbox, &several);
        let places = if several.contains("=2") && several.contains("DEVICES=2") { 2..4 } else { 0..4 };
        assert!(sandbox.uuids()[places].contains(&uuid), "{several}: {uuid}");
    }
}

#[test]
fn odd_variables_do_not_keep_a_task_from_starting() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let odd =
        ["x", "*", "-1", "08", "1(x", "(x2)", "4(x08)", "4(xx)", ",", "$(id)", "99999999999999999999", "1;exit${IFS}3"];
    for value in odd {
        for name in [
            "SLURM_STEP_TASKS_PER_NODE",
            "SLURM_TASKS_PER_NODE",
            "SLURM_STEP_NUM_TASKS",
            "SLURM_NTASKS",
            "SLURM_GPUS_ON_NODE",
        ] {
            let variables = format!("{STEP} CUDA_VISIBLE_DEVICES=0,1,2,3 SLURM_NODEID=1 {name}={value}");
            given(&sandbox, &variables);
        }
        // A place that is not known is none of the list's.
        let variables = format!("{STEP} CUDA_VISIBLE_DEVICES=0,1 SLURM_STEP_TASKS_PER_NODE=1(x9) SLURM_NODEID={value}");
        given(&sandbox, &variables);
        let said = called(&sandbox, &format!("{STEP} GETGPU_SLURM_TASKS={value}"));
        let line =
            format!("print getgpu task-prolog: GETGPU_SLURM_TASKS={value}: neither auto, asked, ungranted nor all\n");
        said.exits(0).prints(&line);
        // A grant of nothing that exists, or of what does not come after a device.
        let said =
            called(&sandbox, &format!("{STEP} SLURM_STEP_TASKS_PER_NODE=1 CUDA_VISIBLE_DEVICES={value},{value}"));
        assert!(
            said.exits(0).stdout.lines().all(|line| line.starts_with("print ") || line.starts_with("export ")),
            "{said:#?}"
        );
    }
}

#[test]
fn where_there_is_nothing_to_be_had_only_who_was_granted_something_is_told() {
    if skip::lacks(&[skip::Need::Tool("dash")]) {
        return;
    }
    let sandbox = Sandbox::builder("gpus4").settings("without_grant = \"none\"").build();
    called(&sandbox, STEP).exits(0).prints("");
    sandbox.set_settings("");
    for empty in ["", "-1", "NoDevFiles"] {
        called(&sandbox, &format!("{STEP} CUDA_VISIBLE_DEVICES={empty}")).exits(0).prints("");
    }
    fs::remove_dir_all(sandbox.path("lib")).unwrap();
    called(&sandbox, STEP).exits(0).prints("");
    let told = "print getgpu: no NVIDIA driver on this node\nprint getgpu task-prolog: ";
    for (more, status) in [("GETGPU_SLURM=yes", 0), ("CUDA_VISIBLE_DEVICES=0", 0), ("GETGPU_SLURM_STRICT=1", 3)] {
        let said = called(&sandbox, &format!("{STEP} {more}"));
        assert!(said.exits(status).stdout.starts_with(told), "{said:#?}");
    }
}

#[test]
fn in_a_real_slurm_tasks_get_a_device_each_and_the_only_one_keeps_its_grant() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let uuids: BTreeSet<String> = sandbox.uuids().into_iter().collect();
    let cluster = Cluster::start(&sandbox, 1, &format!("TaskProlog={}", slurm::hook(&sandbox, "task-prolog", "")));
    // All tasks are there at the same time.
    let show = "echo $CUDA_VISIBLE_DEVICES; echo >>started; while [ $(wc -l <started) -lt $SLURM_NTASKS ]; do sleep 0.02; done";
    let seen = |words: &str| {
        sandbox.file("work/started", "", 0o666);
        let outcome = cluster.srun(words).args(["sh", "-c", show]).run();
        let mut lines: Vec<String> = outcome.exits(0).says(&[]).stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let each = seen("-n4 --gres=gpu:4");
    assert!(each.len() == 4 && each.iter().cloned().collect::<BTreeSet<_>>() == uuids, "{each:?}");
    assert_eq!(seen("-n1 --gres=gpu:4"), ["0,1,2,3"]);
    assert_eq!(seen("-n2 --gpus-per-task=2"), ["0,1", "2,3"]);
    assert!(uuids.contains(&seen("-n1 --gres=gpu:1")[0]));
    // More tasks than devices share them evenly, also where each task goes on through cudawrap, which takes the part that is its own.
    for (options, counts) in [
        ("-n3 --gres=gpu:1", &[3][..]),
        ("-n6 --gres=gpu:4", &[1, 1, 2, 2]),
        ("-n8 --gres=gpu:4", &[2; 4]),
        ("-n8 --gres=gpu:4 cudawrap --", &[2; 4]),
        ("-n3 --gres=gpu:1 cudawrap --", &[3]),
    ] {
        let lines = seen(options);
        assert!(lines.iter().all(|line| uuids.contains(line)), "{options}: {lines:?}");
        let on = |uuid| lines.iter().filter(|line| *line == uuid).count();
        let mut found: Vec<usize> = uuids.iter().map(on).filter(|count| *count > 0).collect();
        found.sort_unstable();
        assert_eq!(found, counts, "{options}: {lines:?}");
    }
    // Batch scripts: of several devices, and of one, which the steps share with it.
    let script = "echo $CUDA_VISIBLE_DEVICES; srun -Q sh -c 'echo $CUDA_VISIBLE_DEVICES'";
    let jobs = ["--gres=gpu:4", "-n1 --gres=gpu:1"].map(|options| {
        let job = cluster.sbatch(options, script);
        cluster.until_empty();
        cluster.output(&job)
    });
    assert_eq!(jobs[0], "0,1,2,3\n0,1,2,3\n");
    let lines: Vec<&str> = jobs[1].lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1] && uuids.contains(lines[0]), "{lines:?}");
    sandbox.assert_clean(Duration::from_secs(1));
}
