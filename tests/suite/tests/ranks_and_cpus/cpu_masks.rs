//! Programs under a CPU mask, on a node whose GPUs are near to given cores.

use std::fs;

use getgpu_tests::wrapped::Facts;
use harness::skip::{self, Need};
use harness::{Command, Sandbox};

fn list(text: &str) -> Vec<usize> {
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first)..=number(last)
    };
    text.trim().split(',').flat_map(range).collect()
}

/// The CPUs that this test may run on.
pub(crate) fn cpus() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = |line: &str| line.strip_prefix("Cpus_allowed_list:").map(list);
    status.lines().find_map(line).unwrap()
}

/// One CPU of each of `count` cores that this test may run on; none: said.
pub(crate) fn cores(count: usize) -> Option<Vec<usize>> {
    if skip::lacks(&[Need::Tool("taskset")]) {
        return None;
    }
    let mask = cpus();
    let first = |cpu: &usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let siblings = fs::read_to_string(path).map_or(vec![*cpu], |text| list(&text));
        *siblings
            .iter()
            .find(|sibling| mask.contains(sibling))
            .unwrap()
    };
    let alone = mask.iter().copied().filter(|cpu| first(cpu) == *cpu);
    let cores: Vec<usize> = alone.take(count).collect();
    if cores.len() < count {
        skip::say(&format!("fewer than {count} cores"));
        return None;
    }
    Some(cores)
}

/// A node with a GPU near each of these lists of CPUs.
pub(crate) fn node(gpus: &[&str]) -> String {
    let gpu = |cpus: &&str| format!("[[gpu]]\nmodel = 'H200'\ncpus = '{cpus}'\n");
    let gpus: String = gpus.iter().map(gpu).collect();
    format!("driver = '570.133.20'\n{gpus}")
}

/// A node of `count` GPUs that are near to all CPUs of this test.
pub(crate) fn near_all(count: usize) -> Sandbox {
    let all: Vec<String> = cpus().iter().map(ToString::to_string).collect();
    Sandbox::new(&node(&vec![all.join(",").as_str(); count]))
}

/// A node with two MIG devices near these CPUs.
pub(crate) fn mig(cpus: &str) -> String {
    let gpu = "[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '2x1g.5gb'\n";
    format!("driver = '570.133.20'\n{gpu}cpus = '{cpus}'\n")
}

/// A program under a mask.
pub(crate) fn masked(sandbox: &Sandbox, mask: &[usize], words: &[&str]) -> Command {
    let mask: Vec<String> = mask.iter().map(ToString::to_string).collect();
    let mask = mask.join(",");
    sandbox.command("taskset").args(["-c", &mask]).args(words)
}

#[track_caller]
pub(crate) fn facts(command: Command) -> Facts {
    Facts::parse(&command.run().exits(0).stdout)
}

#[track_caller]
pub(crate) fn mask(facts: &Facts) -> Vec<usize> {
    list(facts.get("Cpus_allowed_list").unwrap())
}

pub(crate) fn told(facts: &Facts, name: &str) -> Option<String> {
    facts.get(&format!("env {name}")).map(str::to_owned)
}
