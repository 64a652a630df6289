//! Times whole processes against each other: all contenders in turn, round by round, so that whatever else the machine does
//! falls on all of them; prints minimum and median of each and the ratio of its median to the first one's.
#![allow(clippy::print_stdout, reason = "its output is the table")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Contender {
    name: String,
    words: Vec<String>,
    times: Vec<Duration>,
}

/// `ROUNDS NAME=COMMAND...`: commands are split at blanks.
fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let mut contenders: Vec<Contender> = arguments
        .filter_map(|argument| {
            let (name, command) = argument.split_once('=')?;
            let words = command.split_whitespace().map(str::to_owned).collect();
            Some(Contender { name: name.to_owned(), words, times: Vec::new() })
        })
        .collect();
    for round in 0..=rounds {
        for contender in &mut contenders {
            let time = run(&contender.words);
            // The first round only warms the caches.
            if round > 0 {
                contender.times.push(time);
            }
        }
    }
    let base = contenders.first_mut().map_or(Duration::ZERO, |first| median(&mut first.times));
    for contender in &mut contenders {
        let median = median(&mut contender.times);
        let least = contender.times.first().copied().unwrap_or_default();
        println!(
            "{:<34} min {:>9.3} ms  median {:>9.3} ms  x {:>6.2}",
            contender.name,
            least.as_secs_f64() * 1e3,
            median.as_secs_f64() * 1e3,
            median.as_secs_f64() / base.as_secs_f64()
        );
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn run(words: &[String]) -> Duration {
    let Some((program, arguments)) = words.split_first() else { return Duration::ZERO };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let began = Instant::now();
    let status = command.status();
    let time = began.elapsed();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{words:?}: {status:?}");
    time
}
