//! `torchrun --no_python cudawrap -- ./app`, and a Python training script in the same
//! place. Ranks are on different devices, or share evenly if asked, and find each other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use harness::skip::{self, Need};
use harness::{Command, Sandbox, wait};

/// torchrun with so many ranks, each of them cudawrap with these words.
///
/// The ranks' standard output goes into files and to the terminal: torch 1.13 cannot
/// leave it alone under Python 3.11 (which Debian 12 has).
fn torchrun(sandbox: &Sandbox, ranks: usize, words: &[&str]) -> Command {
    let number = ranks.to_string();
    #[rustfmt::skip]
    let own = [
        "--standalone", "--redirects", "1", "--tee", "1", "--log_dir", "logs", "--nproc_per_node",
        &number,
    ];
    let command = sandbox
        .command("torchrun")
        .args(own)
        .args(["--no_python", "cudawrap"])
        .args(words);
    command.limit(Duration::from_secs(120))
}

/// How many ranks each device has, when so many run at a time.
fn counts(ranks: usize, grant: bool, words: &[&str]) -> Vec<usize> {
    let sandbox = Sandbox::new("gpus4");
    let script = format!(
        "exec sim-cuda --shared --until-file {} --tag $LOCAL_RANK",
        sandbox.text("work/go")
    );
    let command = torchrun(
        &sandbox,
        ranks,
        &[words, &["--", "sh", "-c", &script]].concat(),
    );
    let running = if grant {
        command.visible(sandbox.uuids().join(","))
    } else {
        command
    }
    .spawn();
    let all_run = wait::holds_within(Duration::from_secs(60), || sandbox.running() == ranks);
    assert!(
        all_run,
        "{} of {ranks}: {}",
        sandbox.running(),
        running.stderr()
    );
    std::fs::write(sandbox.path("work/go"), "").unwrap();
    running.wait().exits(0);
    let runs = sandbox.runs();
    assert_eq!(
        runs.iter()
            .map(|run| &run.tag)
            .collect::<BTreeSet<_>>()
            .len(),
        ranks,
        "a rank each: {runs:?}"
    );
    let mut devices: BTreeMap<String, usize> = BTreeMap::new();
    runs.into_iter()
        .for_each(|run| *devices.entry(run.uuid).or_default() += 1);
    sandbox.assert_clean(Duration::from_secs(2));
    devices.into_values().collect()
}

#[test]
fn ranks_have_a_device_each_or_share_evenly() {
    if skip::lacks(&[Need::Tool("torchrun")]) {
        return;
    }
    assert_eq!(
        counts(4, false, &[]),
        [1, 1, 1, 1],
        "among the free devices of the node"
    );
    assert_eq!(counts(8, false, &["--share", "auto"]), [2, 2, 2, 2]);
    assert_eq!(
        counts(8, true, &[]),
        [2, 2, 2, 2],
        "in a grant that need not be said"
    );
}

/// `cuda:0` of every rank is its own device, and the ranks talk to each other as without.
#[test]
fn a_training_script_sees_one_device_and_all_ranks() {
    if skip::lacks(&[Need::Tool("torchrun")]) {
        return;
    }
    let sandbox = Sandbox::new("gpus4");
    let text = "import os, torch.distributed as d\nd.init_process_group('gloo')\nall = [None] * d.get_world_size()\n\
                d.all_gather_object(all, os.environ['CUDA_VISIBLE_DEVICES'])\nif d.get_rank() == 0: print(*all)\n";
    let script = sandbox.file("work/train.py", text, 0o644);
    let outcome = torchrun(
        &sandbox,
        4,
        &["--", "/usr/bin/python3", script.to_str().unwrap()],
    )
    .run();
    let line = outcome
        .exits(0)
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("[default0]:"))
        .unwrap();
    let seen: BTreeSet<&str> = line.split(' ').collect();
    assert_eq!(
        seen,
        sandbox.uuids().iter().map(String::as_str).collect(),
        "{outcome:#?}"
    );
    sandbox.assert_clean(Duration::from_secs(2));
}
