//! Storms, each made from a seed and judged by what the simulated programs wrote down: random
//! trees of programs and random queues, ten of each in every run, and launches and kills by the
//! hundred, only on request (`make storms`).

mod oracle;
mod oracle_cases;
mod queues;
mod script;
mod tree;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use getgpu_tests::soak::number;
use getgpu_tests::storm::{Ways, storm};
use getgpu_tests::wrapped::{python, wrap, wrap_shell};
use getgpu_tests::{all_at_once, listing};
use harness::{Sandbox, wait};
use sim_node::monotonic_ns;

use oracle::{Notes, Oracle};
use tree::{Filter, Tree};

const PACKAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/python/src/cudawrap"
);

/// COUNT seeds from SEED (1) on.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = number("SEED", 1);
    first..first + number("COUNT", count)
}

/// The devices of a node that a filter leaves.
fn filtered(devices: &[serde_json::Value], filter: Filter) -> BTreeSet<String> {
    let fits = |device: &&serde_json::Value| match filter {
        Filter::FirstGpu => device["gpu"] == 0,
        Filter::TwoSlices => device["profile"] == "2g.10gb",
    };
    let uuid = |device: &serde_json::Value| device["uuid"].as_str().map(str::to_owned);
    devices.iter().filter(fits).filter_map(uuid).collect()
}

/// Runs a tree to its end and judges it.
#[track_caller]
fn run_tree(seed: u64) {
    let has_python = python().is_some();
    let tree = Tree::grow(seed, nix::unistd::geteuid().is_root(), has_python);
    let sandbox = Sandbox::with(tree.node, &tree.settings());
    // Of each second one NVML shows no program, so that locks alone keep them apart.
    sandbox.faults(&format!("unseen = {}", seed % 2 == 1));
    wrap(&sandbox, "opt", "app", "sim-cuda");
    wrap_shell(&sandbox, "opt", "sh");
    for file in std::fs::read_dir(PACKAGE).unwrap().flatten() {
        if let Ok(text) = std::fs::read_to_string(file.path()) {
            let name = file.file_name().into_string().unwrap();
            sandbox.file(&format!("python/cudawrap/{name}"), &text, 0o644);
        }
    }
    let listed = listing::json(&sandbox);
    let script = tree.script();
    let file = sandbox.file("work/tree", &script, 0o755);
    let began = Instant::now();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let ahead = now - monotonic_ns();
    let command = sandbox.command("bash").args([file]);
    let command = command.env("PYTHONPATH", sandbox.path("python"));
    let command = command.env("PYTHONDONTWRITEBYTECODE", "1");
    let outcome = command.limit(Duration::from_secs(120)).run();
    let is_quiet = || sandbox.processes().is_empty() && !sandbox.locked();
    let is_quiet = wait::holds_within(wait::LONG, is_quiet);
    let text = std::fs::read_to_string(sandbox.path("work/notes")).unwrap();
    let notes = Notes::parse(&text, ahead);
    let runs = sandbox.runs();
    let oracle = Oracle {
        tree: &tree,
        notes: &notes,
        runs: &runs,
        filtered: &|filter| filtered(listing::devices(&listed), filter),
    };
    let mut faults = oracle.faults();
    if !is_quiet {
        faults.push(format!("left: {:?}", sandbox.holders()));
    }
    println!(
        "tree {seed}: {} branches, {} programs ran, {} killed, {} reservations ended, {:.1?}",
        tree.branches.len(),
        runs.len(),
        notes.killed.len(),
        notes.ended.len(),
        began.elapsed()
    );
    assert!(
        faults.is_empty() && outcome.code() == Some(0),
        "{script}\n{faults:#?}\n{text}\n{runs:#?}\n{outcome:#?}"
    );
}

/// So many at a time, since they mostly wait.
fn several(at_once: usize, run: impl Fn(u64) + Sync) {
    let _turn = harness::turn();
    let seeds: Vec<u64> = seeds(10).collect();
    for some in seeds.chunks(at_once) {
        all_at_once(some, |seed| run(*seed));
    }
}

#[test]
fn trees_give_no_device_to_two_programs() {
    several(4, run_tree);
}

#[test]
fn queues_let_no_waiter_wait_for_what_is_free() {
    several(2, queues::run_queue);
}

/// Of 400 launches each, on small and large nodes in turn.
#[test]
#[ignore = "takes as long as it is told to"]
fn launches_one_after_the_other_leave_nothing_behind() {
    let _turn = harness::turn();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let children = || {
        let path = format!("/proc/self/task/{}/children", nix::unistd::gettid());
        std::fs::read_to_string(path).unwrap()
    };
    // What the first sandbox starts stays.
    drop(harness::temporary());
    let before = (open(), children());
    for seed in seeds(1000) {
        let (node, ways, least) = match seed % 5 {
            0 | 2 => ("a100x1", Ways::Ours, 100),
            1 | 3 => ("a100x8", Ways::Ours, 600),
            _ => ("a100x8", Ways::Unwrapped, 600),
        };
        storm(node, ways, 400, least, seed);
        // Locks, holders and processes of its sandbox are looked at by each storm itself.
        assert_eq!((open(), children()), before, "seed {seed}");
    }
}
