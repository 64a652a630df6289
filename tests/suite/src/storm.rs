//! A storm of launches: in all three ways, by four users, a third of them killed at
//! random instants. The judge is what the simulated programs wrote down themselves, and
//! what the kernel says is still locked.

#![allow(clippy::print_stdout, reason = "the figures are read")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use harness::{Command, Running, Sandbox, Signal, skip};

use crate::OTHER;
use crate::hooked::hook;
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
    let (app, hook) = (wrap(&sandbox, "opt", "app", "sim-cuda"), hook(&sandbox));
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skip::say("other users need root; all launches are this user's");
    }
    let mut random = Random::new(seed);
    let start = |number: u64, run: u64| -> Command {
        let time = format!("{}ms", least + run);
        let command = match number % 3 {
            _ if ways == Ways::Unwrapped => sandbox
                .command("sim-cuda")
                .args(["--init", "20ms", "--run", &time])
                .env("CUDA_INJECTION64_PATH", &hook),
            0 => sandbox.shell(
                "bash",
                &format!("d=$(getgpu) || exit; CUDA_VISIBLE_DEVICES=$d exec sim-cuda --init 20ms --run {time}"),
            ),
            1 => sandbox.command("cudawrap").args(["--", "sim-cuda", "--init", "20ms", "--run", &time]),
            _ => sandbox.command(&app).args(["--init", "20ms", "--run", &time]),
        };
        let command = command.limit(Duration::from_secs(120));
        // Four users in turn, one of them root.
        let user = [None, Some(OTHER), Some(OTHER + 1), Some(OTHER + 2)][(number / 3 % 4) as usize];
        match user.filter(|_| root) {
            Some(user) => command.uid(user),
            None => command,
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
    let (mut ran, mut none, mut dead) = (0, 0, 0);
    over.extend(
        running
            .into_iter()
            .map(|(number, program)| (number, program.wait())),
    );
    for (number, outcome) in over {
        match (outcome.code(), number % 3) {
            (Some(0), _) => ran += 1,
            (Some(1), 0) | (Some(75), 1 | 2) if ways == Ways::Ours => {
                outcome.mentions("no free device: ");
                none += 1;
            }
            (Some(100), _) if ways == Ways::Unwrapped => {
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
    sandbox.assert_clean(Duration::from_secs(10));
    let free: usize = sandbox
        .line("--count-free")
        .parse()
        .expect("a step of the storm");
    assert_eq!(free, sandbox.uuids().len());
}
