//! Every `cudawrap -- program` of a step gets its own device of the job's grant, or an
//! even share of one. Inside a batch script the launcher's own numbers count, not
//! Slurm's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use getgpu_tests::slurm::{self, Cluster};
use harness::{Running, Sandbox, wait};

/// How many programs each device has, the fullest first.
fn spread(sandbox: &Sandbox) -> Vec<usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for record in sandbox.folder().running().unwrap() {
        *counts.entry(record.uuid).or_default() += 1;
    }
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// Lets the programs that run end, and the next ones wait again.
#[track_caller]
fn go_on(sandbox: &Sandbox, jobs: Vec<Running>) -> Vec<String> {
    let file = sandbox.file("work/go", "", 0o644);
    let said = jobs
        .into_iter()
        .map(|job| job.wait().exits(0).stderr.clone())
        .collect();
    std::fs::remove_file(file).unwrap();
    said
}

const RANK: &str = "cudawrap -- sim-cuda --until-file go --max";

#[test]
fn ranks_under_srun_get_one_device_each_or_even_parts() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let cluster = Cluster::start(&sandbox, 1, "");
    for (ranks, gpus, most, expected) in [
        (4, "--gres=gpu:4", 1, vec![1, 1, 1, 1]),
        (8, "--gres=gpu:4", 2, vec![2, 2, 2, 2]),
        (6, "--gres=gpu:4", 2, vec![2, 2, 1, 1]),
        (3, "--gres=gpu:4", 1, vec![1, 1, 1]),
        (4, "--gpus-per-task=1", 1, vec![1, 1, 1, 1]),
        (4, "", 1, vec![1, 1, 1, 1]),
    ] {
        let step = cluster
            .srun(&format!("-n{ranks} {gpus} {RANK} {most}"))
            .spawn();
        sandbox.until_running(ranks);
        assert_eq!(spread(&sandbox), expected, "{ranks} ranks {gpus}");
        let said = go_on(&sandbox, vec![step]);
        // Uneven counts are reported once.
        let uneven = usize::from(!gpus.is_empty() && 4 % ranks != 0 && ranks % 4 != 0);
        assert_eq!(
            said[0]
                .lines()
                .filter(|line| line.contains(" ranks on 4 devices: "))
                .count(),
            uneven,
            "{said:?}"
        );
    }
    assert_eq!(sandbox.collisions().len(), 0);
    sandbox.assert_clean(Duration::from_secs(1));
}

#[test]
fn jobs_on_one_node_stay_in_what_each_was_given() {
    if slurm::lacks(&[]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let cluster = Cluster::start(&sandbox, 1, "");
    let start = |job: &str| {
        cluster
            .srun(&format!("-n2 --gres=gpu:2 {RANK} 1 --tag {job}"))
            .spawn()
    };
    let jobs = ["a", "b"].map(start).into();
    sandbox.until_running(4);
    assert_eq!(spread(&sandbox), [1, 1, 1, 1]);
    // Slurm grants the first two to one and the last two to the other.
    let pairs = sandbox.uuids();
    let pairs =
        [&pairs[..2], &pairs[2..]].map(|pair| pair.iter().cloned().collect::<BTreeSet<String>>());
    for job in ["a", "b"] {
        let running = sandbox.folder().running().unwrap().into_iter();
        let own: BTreeSet<String> = running
            .filter(|record| record.tag == job)
            .map(|record| record.uuid)
            .collect();
        assert!(pairs.contains(&own), "{job}: {own:?}");
    }
    go_on(&sandbox, jobs);
    sandbox.assert_exclusive();
}

#[test]
fn nodes_with_different_grants_work_from_their_own() {
    if slurm::lacks(&[]) {
        return;
    }
    // Each node is a sandbox of its own: the same indices, other devices.
    let nodes = [Sandbox::new("gpus4"), Sandbox::new("gpus4")];
    let cluster = Cluster::start(&nodes[0], 2, "");
    let mut cases = String::new();
    for (number, node) in (1..).zip(&nodes) {
        cases += &format!("n{number}) {} ;;\n", slurm::environment(node));
    }
    let go = nodes[0].text("work/go");
    let script = format!(
        "#!/bin/sh\ncase $SLURMD_NODENAME in\n{cases}esac\nexec cudawrap -- sim-cuda --until-file {go} --max 2\n"
    );
    let rank = nodes[0]
        .file("work/rank", &script, 0o755)
        .display()
        .to_string();
    // Three ranks on three devices there, two on one here.
    let step = cluster
        .srun(&format!(
            "-w n1 -n3 --gres=gpu:3 {rank} : -w n2 -n2 --gres=gpu:1 {rank}"
        ))
        .spawn();
    let running = wait::holds_within(wait::LONG, || {
        nodes[0].running() == 3 && nodes[1].running() == 2
    });
    assert!(running, "{step:#?} {}", step.stderr());
    assert_eq!(
        (spread(&nodes[0]), spread(&nodes[1])),
        (vec![1, 1, 1], vec![2])
    );
    go_on(&nodes[0], vec![step]);
    assert!(nodes.iter().all(|node| node.collisions().is_empty()));
}
