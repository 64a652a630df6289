//! A storm of launches: in all three ways, by four users, a third of them killed at
//! random instants. The judge is what the simulated programs wrote down themselves, and
//! what the kernel says is still locked.

#![allow(clippy::print_stdout, reason = "the figures are read")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use harness::{Command, Running, Sandbox, Signal, skip};

use crate::OTHER;
use crate::hooked::{VARIABLE, hook};
use crate::random::Random;
use crate::wrapped::wrap;

/// At most so many launches at a time: two processors have to serve them.
const AT_ONCE: usize = 300;

/// How programs are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// `$(getgpu)`, `cudawrap --` and a wrapped name in turn.
    Ours,
    /// By their own names: CUDA_INJECTION64_PATH names libcudawrap.so.
    Unwrapped,
}

/// So many launches on a node, each program for `least` ms and up to 600 more; the seed
/// decides who is killed when.
///
/// # Panics
///
/// If two programs met on a device, anything is left, or a launch ended otherwise than it
/// may.
#[track_caller]
pub fn storm(node: &str, ways: Ways, launches: u64, least: u64, seed: u64) {
    let sandbox = Sandbox::with(node, "linger = '200ms'\nreserve_for = '5s'");
    let hook = hook(&sandbox);
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skip::say("other users need root; all launches are this user's");
    }
    let mut random = Random::new(seed);
    let start = |number: u64, run: u64| -> Command {
        let program = format!("sim-cuda --init 20ms --run {}ms", least + run);
        let reserved = "d=$(getgpu) || exit; CUDA_VISIBLE_DEVICES=$d exec";
        let command = match number % 3 {
            _ if ways == Ways::Unwrapped => sandbox.words(&program).env(VARIABLE, &hook),
            0 => sandbox.shell("bash", &format!("{reserved} {program}")),
            1 => sandbox.words(&format!("cudawrap -- {program}")),
            _ => sandbox.words(&program.replace("sim-cuda", "@/opt/app")),
        };
        let command = command.limit(Duration::from_secs(120));
        // Four users in turn, one of them root.
        match number / 3 % 4 {
            user @ 1.. if root => command.uid(OTHER + user as u32 - 1),
            _ => command,
        }
    };
    let mut running: Vec<(u64, Running)> = Vec::new();
    let (mut victims, mut over) = (BTreeSet::new(), Vec::new());
    let began = Instant::now();
    for number in 0..launches {
        while running.len() >= AT_ONCE {
            let done = running
                .iter_mut()
                .position(|(_, program)| program.is_over())
                .unwrap_or(0);
            let (number, program) = running.swap_remove(done);
            over.push((number, program.wait()));
        }
        running.push((number, start(number, random.below(600)).spawn()));
        // Three in ten are killed, each at some instant while others start.
        if random.below(10) < 3 {
            let victim = random.below(running.len() as u64) as usize;
            running[victim].1.signal(Signal::SIGKILL);
            victims.insert(running[victim].0);
        }
    }
    let none_is_free = |way: u64| match way {
        _ if ways == Ways::Unwrapped => 100,
        0 => 1,
        _ => 75,
    };
    let (mut ran, mut none, mut dead) = (0, 0, 0);
    let left = running.into_iter();
    over.extend(left.map(|(number, program)| (number, program.wait())));
    for (number, outcome) in over {
        match (outcome.code(), number % 3) {
            (Some(0), _) => ran += 1,
            (Some(code), way) if code == none_is_free(way) => {
                outcome.mentions("no free device: ");
                none += 1;
            }
            (None, _) if outcome.signal() == Some(9) && victims.contains(&number) => dead += 1,
            _ => panic!("launch {number}: {outcome:?}"),
        }
    }
    let runs = sandbox.folder().runs().expect("a step of the storm").len();
    println!(
        "{node}, seed {seed}: {launches} launches, {} signals: {ran} ran to their end, {dead} killed, {none} told that none is free; {runs} contexts, {:.0?}",
        victims.len(),
        began.elapsed()
    );
    sandbox.assert_exclusive();
    assert!(ran > 0 && dead > 0, "the storm was none");
    sandbox.assert_clean();
    let all = sandbox.uuids().len().to_string();
    assert_eq!(sandbox.line("--count-free"), all);
}
