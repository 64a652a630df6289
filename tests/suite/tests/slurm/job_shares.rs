//! Jobs get a share of a device from Prolog until Epilog, also in heterogeneous jobs, and
//! queue in Slurm until one is free.

use std::collections::BTreeSet;
use std::fs;

use getgpu_tests::listing;
use getgpu_tests::slurm::{self, Cluster};
use harness::skip::Need;
use harness::{Sandbox, wait};

use crate::task_calls::{ASKED, NOBODY, as_nobody, devices};

#[test]
fn jobs_have_their_part_from_prolog_to_epilog() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let lines = slurm::hooks(&sandbox, ASKED);
    let cluster = Cluster::start(&sandbox, 1, &lines);
    let start = |_| {
        as_nobody(cluster.srun("-n2 --constraint=gpushare4 sim-cuda --until-file go --max 4"))
            .spawn()
    };
    // Eight jobs of two tasks: the tasks of a job share its part, and two jobs a device.
    let steps: Vec<_> = (0..8).map(start).collect();
    sandbox.until_running(16);
    let listing = listing::json(&sandbox);
    for device in listing::devices(&listing) {
        let holders = device["holders"].as_array().unwrap();
        let named = |holder: &serde_json::Value| {
            let tag = format!("slurm-{}", holder["job"].as_str().unwrap());
            holder["uid"] == NOBODY && holder["tag"] == *tag
        };
        assert!(holders.len() == 2 && holders.iter().all(named), "{device}");
        let running = sandbox
            .folder()
            .running_on(device["uuid"].as_str().unwrap());
        assert_eq!(running.unwrap().len(), 4);
    }
    // A job that does not ask sees nothing of it.
    let show = ["sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-unset}"];
    let plain = cluster.srun("-n1").args(show).run();
    plain.exits(0).prints("unset\n");
    sandbox.file("work/go", "", 0o644);
    for step in steps {
        step.wait().exits(0).says(&[]);
    }
    cluster.until_empty();
    sandbox.assert_clean();
    // Several steps of one job have the same part.
    let script = "for step in 1 2; do srun -Q sh -c 'echo $CUDA_VISIBLE_DEVICES; cudawrap -- sim-cuda'; done; echo $CUDA_VISIBLE_DEVICES";
    let job = cluster.sbatch("-n1 --constraint=gpushare4", script);
    cluster.until_empty();
    let output = cluster.output(&job);
    let words = output
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap_or(line));
    let seen: BTreeSet<&str> = words.collect();
    assert!(output.lines().count() == 5 && seen.len() == 1, "{output}");
    sandbox.assert_clean();
    assert!(sandbox.collisions().is_empty());
}

#[test]
fn jobs_queue_in_slurm_until_a_part_is_free() {
    if slurm::lacks(&[Need::Tool("lua5.3")]) {
        return;
    }
    let sandbox =
        Sandbox::new("driver = \"550.54.15\"\n[[gpu]]\nmodel = \"A100-SXM4-80GB\"\ncount = 2\n");
    let script = slurm::script("job_submit.lua");
    fs::copy(script, sandbox.path("job_submit.lua")).unwrap();
    let hooks = slurm::hooks(&sandbox, "");
    let cluster = Cluster::start(&sandbox, 1, &format!("JobSubmitPlugins=lua\n{hooks}"));
    // What Slurm refuses, and why.
    #[rustfmt::skip]
    let cases = [
        ("--gres=gpuquarter:2", "one part per node"),
        ("--constraint=gpushare4|fast", "join constraints by & only"),
        ("--constraint=gpushare4 --comment=gpushare2", "a part of one size"),
        ("--constraint=[gpushare4*1&fast*1]", "join constraints by & only"),
    ];
    for (options, why) in cases {
        let batch = cluster.command(&["sbatch", "--wrap=true"]);
        let refused = batch.args(options.split(' ')).run();
        refused.exits(1).mentions(why);
    }
    // Ways to ask for one of eight places.
    #[rustfmt::skip]
    let ways = [
        "--constraint=gpushare4", "--comment=gpushare4", "--gres=gpuquarter",
        "--constraint=gpushare4 --gres=gpuquarter:1",
    ];
    let script = "echo grant $CUDA_VISIBLE_DEVICES; exec sim-cuda --until-file go --max 4";
    let submit = |number: usize| cluster.sbatch(&format!("-n1 {}", ways[number % 4]), script);
    let mut jobs: Vec<String> = (0..10).map(submit).collect();
    sandbox.until_running(8);
    let shown = cluster.ask(&["squeue", "-h", "-o", "%T %b %f"]);
    let shows = |line: &str, state: &str| {
        [":", "/"]
            .iter()
            .any(|sign| line.starts_with(&format!("{state} gres{sign}gpuquarter")))
            && line.ends_with(" gpushare4")
    };
    let count = |state: &str| shown.lines().filter(|line| shows(line, state)).count();
    assert_eq!((count("RUNNING"), count("PENDING")), (8, 2), "{shown}");
    // A part is fixed at submission.
    for change in ["Features=gpushare2", "Features=", "Features=fast"] {
        let words = ["scontrol", "update", &format!("JobId={}", jobs[9]), change];
        let refused = cluster.command(&words).run();
        assert_ne!(refused.code(), Some(0), "{change}: {refused:#?}");
    }
    sandbox.file("work/go", "", 0o644);
    jobs.extend((10..40).map(submit));
    let step = cluster.srun("-n1 --constraint=gpushare4 sim-cuda --max 4");
    step.run().exits(0).says(&[]);
    cluster.until_empty();
    let logs = cluster.logs();
    let lines = logs.lines().filter(|line| line.contains("environment"));
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0], "jobs of srun have none");
    for job in jobs {
        let output = cluster.output(&job);
        let ran = output.starts_with("grant GPU-") && output.contains("\nRUN ");
        assert!(ran, "{output}");
    }
    sandbox.assert_clean();
    assert!(sandbox.collisions().is_empty());
    // A job without a part is as it was.
    let plain = cluster.sbatch("-n1 --gres=gpu:1", "echo ${CUDA_VISIBLE_DEVICES-unset}");
    cluster.until_empty();
    assert_eq!(cluster.output(&plain), "0\n");
}

/// A site that shares GPUs among the jobs of a course: parts for one reservation alone, as
/// many jobs to a GPU as it has parts, the least occupied first, jobs of two users.
#[test]
fn parts_may_be_for_the_jobs_of_one_reservation() {
    if slurm::lacks(&[Need::Tool("lua5.3")]) {
        return;
    }
    let sandbox =
        Sandbox::new("driver = \"550.54.15\"\n[[gpu]]\nmodel = \"A100-SXM4-80GB\"\ncount = 2\n");
    let script = fs::read_to_string(slurm::script("job_submit.lua")).unwrap();
    let course = script.replace(
        "RESERVATIONS = nil",
        "RESERVATIONS = { \"other\", \"hub_course-*\" }",
    );
    assert_ne!(course, script);
    sandbox.file("job_submit.lua", &course, 0o644);
    let hooks = slurm::hooks(&sandbox, "");
    let cluster = Cluster::start(&sandbox, 1, &format!("JobSubmitPlugins=lua\n{hooks}"));
    cluster.ask(&[
        "scontrol",
        "create",
        "reservation",
        "ReservationName=hub_course-7",
        "StartTime=now",
        "Duration=60",
        "Nodes=n1",
        "Users=root,daemon,games",
    ]);
    let batch = cluster.command(&["sbatch", "--wrap=true", "--constraint=gpushare4"]);
    let refused = batch.run();
    refused.exits(1).mentions(
        "parts of a GPU are for jobs of a reservation: --reservation=other or hub_course-*",
    );
    let go = "exec sim-cuda --until-file go --max 4";
    let submit = |number: usize| {
        let uid = ["daemon", "games"][number % 2];
        let options = format!("-n1 --reservation=hub_course-7 --constraint=gpushare4 --uid={uid}");
        cluster.sbatch(&options, go)
    };
    let jobs: Vec<String> = (0..2).map(submit).collect();
    sandbox.until_running(2);
    // One on each GPU, as long as one is empty.
    let occupied = |sandbox: &Sandbox| -> Vec<usize> {
        let listing = listing::json(sandbox);
        let devices = listing::devices(&listing).iter();
        devices
            .map(|device| device["holders"].as_array().unwrap().len())
            .collect()
    };
    assert_eq!(occupied(&sandbox), [1, 1]);
    let more: Vec<String> = (2..10).map(submit).collect();
    sandbox.until_running(8);
    assert_eq!(occupied(&sandbox), [4, 4]);
    let waiting = cluster.ask(&["squeue", "-h", "-t", "PD", "-o", "%A"]);
    assert_eq!(waiting.lines().count(), 2, "{waiting}");
    // A job cannot leave the reservation and keep its part.
    let update = [
        "scontrol",
        "update",
        &format!("JobId={}", more[7]),
        "ReservationName=",
    ];
    assert_ne!(cluster.command(&update).run().code(), Some(0));
    sandbox.file("work/go", "", 0o644);
    cluster.until_empty();
    for job in jobs.iter().chain(&more) {
        let output = cluster.output(job);
        assert!(output.contains("RUN "), "{output}");
    }
    sandbox.assert_clean();
    assert!(sandbox.collisions().is_empty());
}

/// slurmd leaves the prolog out for some requeued jobs: here there is none at all.
#[test]
fn a_job_whose_prolog_slurm_left_out_sees_no_gpu() {
    if slurm::lacks(&[Need::Tool("lua5.3")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let script = slurm::script("job_submit.lua");
    fs::copy(script, sandbox.path("job_submit.lua")).unwrap();
    let hook = slurm::hook(&sandbox, "task-prolog", "");
    let lines = format!("JobSubmitPlugins=lua\nTaskProlog={hook}");
    let cluster = Cluster::start(&sandbox, 1, &lines);
    let show = "sees='echo ${CUDA_VISIBLE_DEVICES-unset}'; eval \"$sees\"
srun -Q sh -c \"$sees\"; srun -Q --export=NONE /bin/sh -c \"$sees\"";
    let promised = cluster.sbatch("-n1 --constraint=gpushare4", show);
    let again = cluster.sbatch(
        "-n1 --constraint=gpushare4",
        &format!("export SLURM_RESTART_COUNT=1\n{show}"),
    );
    let plain = cluster.sbatch("-n1", show);
    cluster.until_empty();
    let again_said = cluster.output(&again);
    assert!(
        again_said.contains(&format!("scontrol requeue {again} starts it once more")),
        "{again_said}"
    );
    let said = cluster.output(&promised);
    assert!(!said.contains("scontrol requeue"), "{said}");
    let values = said.lines().filter(|line| !line.contains("getgpu"));
    assert!(values.eq(["", "", ""]), "{said}");
    assert!(said.contains("gpushare4 was promised"), "{said}");
    assert_eq!(cluster.output(&plain), "unset\nunset\nunset\n");
}

#[test]
fn each_component_of_a_heterogeneous_job_finds_its_own_part() {
    if slurm::lacks(&[]) {
        return;
    }
    // A sandbox for each node.
    let nodes = [Sandbox::new("gpus4"), Sandbox::new("gpus4")];
    let cases: Vec<String> = (1..)
        .zip(&nodes)
        .map(|(number, node)| format!("n{number}) {} ;;", slurm::environment(node)))
        .collect();
    let environment = format!("case $SLURMD_NODENAME in\n{}\nesac", cases.join("\n"));
    // Not the device that a program takes without being told.
    for node in &nodes {
        node.set_settings("[slurm]\noptions = '--gpu 3'");
    }
    let lines = slurm::hooks_from(|name| {
        let lines = format!("{environment}\nexec '{}'", slurm::script(name).display());
        slurm::hook_of_lines(&nodes[0], name, &lines)
    });
    let cluster = Cluster::start(&nodes[0], 2, &lines);
    let go = nodes[0].text("work/go");
    let script = format!("#!/bin/sh\n{environment}\nexec sim-cuda --until-file {go}\n");
    let task = nodes[0].file("work/task", &script, 0o755);
    let task = task.display();
    let component = |node: u32| format!("-w n{node} --constraint=gpushare4 {task}");
    let step = cluster
        .srun(&format!("{} : {}", component(1), component(2)))
        .spawn();
    let running = wait::holds_within(wait::LONG, || nodes.iter().all(|node| node.running() == 1));
    assert!(running, "{step:#?} {}", step.stderr());
    for node in &nodes {
        let holders = node.holders();
        assert_eq!(holders.len(), 1, "{holders:?}");
        let device = devices(node).pop_first().unwrap();
        let there = holders[0].words.contains(&device);
        assert!(there, "where it was reserved: {holders:?}");
    }
    nodes[0].file("work/go", "", 0o644);
    step.wait().exits(0);
    cluster.until_empty();
    for node in &nodes {
        node.assert_clean();
    }
}
