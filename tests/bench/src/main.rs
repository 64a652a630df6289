//! `getgpu-bench ROUNDS NAME=COMMAND...`: times commands against each other, each split at
//! blanks: all in turn, round by round, so that whatever else the machine does falls on all of
//! them. The first one is the yardstick, and every median is told as a ratio to its median.
//! tests/bench/run.sh says which.
#![allow(clippy::print_stdout, reason = "its output is the table")]

use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time of a command, whose output is discarded. A command that fails has no time.
fn time(name: &str, command: &str) -> Duration {
    let mut words = command.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status();
    let time = began.elapsed();
    let done = status.as_ref().is_ok_and(ExitStatus::success);
    assert!(done, "{name}: {status:?}");
    time
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let arguments: Vec<String> = arguments.collect();
    let contenders = arguments.iter().filter_map(|word| word.split_once('='));
    let mut contenders: Vec<_> = contenders
        .map(|contender| (contender, Vec::new()))
        .collect();
    for round in 0..=rounds {
        for ((name, command), times) in &mut contenders {
            let time = time(name, command).as_secs_f64();
            // The first round only warms the caches.
            if round > 0 {
                times.push(time * 1e3);
            }
        }
    }
    let mut base = None;
    for ((name, _), mut times) in contenders {
        times.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| times.get(place).copied().unwrap_or_default();
        let (least, median) = (at(0), at(times.len() / 2));
        let ratio = median / *base.get_or_insert(median);
        println!("{name:<34} min {least:>9.3} ms  median {median:>9.3} ms  x {ratio:>6.2}");
    }
}
