//! Figures of the line: how soon the next program runs when one is killed, and what a
//! waiter costs while it waits. `getgpu-bench-line [ROUNDS]`, from a release build; the
//! programs are found beside it.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "its output is the table, and a panic is a failed run"
)]

use std::time::{Duration, Instant};

use harness::{Running, Sandbox, Signal, wait};
use nix::time::{ClockId, clock_gettime};

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(300);
    handover(rounds);
    for waiters in [1, 10, 100, 200, 500] {
        cost(waiters);
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(time.tv_sec()).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap()
}

fn waiter(sandbox: &Sandbox) -> Running {
    let waiter = sandbox.words("cudawrap --wait -- sim-cuda --run forever");
    waiter.limit(Duration::from_secs(600)).spawn()
}

fn in_line(waiter: &Running) -> bool {
    waiter.stderr().contains("ahead of you")
}

/// From the SIGKILL of a program to the context of the next one, with two more in line
/// behind it.
fn handover(rounds: usize) {
    let sandbox = Sandbox::new("h200x1");
    let mut line: std::collections::VecDeque<Running> = [waiter(&sandbox)].into();
    sandbox.until_running(1);
    let mut times: Vec<u64> = Vec::new();
    for round in 0..rounds {
        while line.len() < 4 {
            line.push_back(waiter(&sandbox));
            wait::until("it waits in the queue", || line.back().is_some_and(in_line));
        }
        let first = line.pop_front().unwrap();
        let killed = now();
        first.signal(Signal::SIGKILL);
        // Nothing else runs meanwhile.
        std::thread::sleep(Duration::from_millis(60));
        let runs = || sandbox.folder().runs().unwrap();
        wait::until("the next one runs", || runs().len() == round + 2);
        let last = runs().iter().map(|run| run.start).max();
        times.push(last.unwrap() - killed);
        first.wait();
    }
    sandbox.assert_exclusive();
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    println!(
        "SIGKILL to the next program's context, {rounds} times: median {:.2} ms, p99 {:.2} ms, most {:.2} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// CPU time that a process has had, in ns (first field of /proc/PID/schedstat).
fn used(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// Sleeps 10 s, 10 ms at a time as the head of the queue does: the CPU time of that, in ns.
/// It is the yardstick of a waiter, since what a wake-up costs differs tenfold between machines.
fn sleep_in_pieces() -> u64 {
    let own = || {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        Duration::from(time)
    };
    let (before, began) = (own(), Instant::now());
    while began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    u64::try_from((own() - before).as_nanos()).unwrap()
}

/// CPU time of so many waiters over some seconds: of the head, and of each of the others.
fn cost(waiters: usize) {
    let sandbox = Sandbox::new("h200x1");
    let _first = waiter(&sandbox);
    sandbox.until_running(1);
    let began = Instant::now();
    let line: Vec<Running> = (0..waiters).map(|_| waiter(&sandbox)).collect();
    wait::until("all stand in line", || line.iter().all(in_line));
    let stood = began.elapsed();
    let is_head = |running: &&Running| running.stderr().contains(" 0 ahead");
    let (heads, others): (Vec<&Running>, Vec<&Running>) = line.iter().partition(is_head);
    let all_used = |of: &[&Running]| -> u64 { of.iter().map(|running| used(running.pid())).sum() };
    let before = [&heads, &others].map(|of| all_used(of));
    let watched = Instant::now();
    let slept = sleep_in_pieces();
    let seconds = watched.elapsed().as_secs_f64();
    let each = |of: &[&Running], before: u64| {
        (all_used(of) - before) as f64 / 1e3 / seconds / of.len().max(1) as f64
    };
    let (head, number) = (each(&heads, before[0]), others.len());
    let others = each(&others, before[1]);
    let sleeper = slept as f64 / 1e3 / seconds;
    println!(
        "{waiters:>3} waiters: all in line after {:>6.0} ms; CPU per second of waiting: a sleeper {sleeper:.0} us, head {head:.0} us, each of {number} others {others:.0} us",
        stood.as_secs_f64() * 1e3
    );
}
