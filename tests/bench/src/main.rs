//! `getgpu-bench ROUNDS NAME=COMMAND...`: times commands against each other. A command is
//! split at blanks. tests/bench/run.sh says which.

use std::process::Command;

use getgpu_bench::{Contender, race};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let mut contenders: Vec<Contender> = arguments
        .filter_map(|argument| {
            let (name, command) = argument.split_once('=')?;
            let mut words = command.split_whitespace();
            let mut command = Command::new(words.next()?);
            command.args(words);
            Some(Contender::new(name, command))
        })
        .collect();
    race(rounds, &mut contenders);
}
