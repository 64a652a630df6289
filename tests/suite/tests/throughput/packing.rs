//! A course on one node: forty students with quarters of devices, a queue of 140 for seven
//! devices, and twenty requests for two devices at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use getgpu_tests::{as_other_user, loads};
use harness::{Command, Running, Sandbox, Signal, wait};

const LONG: Duration = Duration::from_secs(120);

fn quarter(sandbox: &Sandbox, number: u64, time: &str) -> Command {
    let program = format!("sim-cuda --max 4 --run {time} --tag {number}");
    let line = format!("cudawrap -q --share 1/4 --wait -- {program}");
    let command = sandbox.words(&line).limit(LONG);
    match number % 2 {
        1 => as_other_user(command),
        _ => command,
    }
}

#[test]
fn forty_quarters_on_seven_devices() {
    let _turn = harness::turn();
    let sandbox = Sandbox::new("a100x1");
    // While it fills: the counts of devices differ by one at most, at each of the 28
    // steps.
    let mut filling: Vec<Running> = Vec::new();
    for number in 0..28 {
        filling.push(quarter(&sandbox, number, "forever").spawn());
        sandbox.until_running(filling.len());
        let loads = loads(&sandbox);
        let (least, most) = (loads.values().min().unwrap(), loads.values().max().unwrap());
        assert!(most - least <= 1, "after {number} more: {loads:?}");
    }
    let waiting: Vec<Running> = (28..40)
        .map(|number| quarter(&sandbox, number, "0.2").spawn())
        .collect();
    // Three in ten are killed; each gives back its part alone.
    for number in [1, 4, 8, 11, 14, 17, 21, 24, 27] {
        filling[number].signal(Signal::SIGKILL);
    }
    for running in waiting {
        running.wait().exits(0);
    }
    drop(filling);
    let ran: BTreeSet<String> = sandbox.runs().into_iter().map(|run| run.tag).collect();
    assert_eq!(ran.len(), 40, "all forty have run");
    assert_eq!(sandbox.collisions().len(), 0, "{:?}", sandbox.collisions());
    sandbox.assert_clean();
    assert_eq!(sandbox.line("--count-free --share 1/4"), "28");
}

#[test]
fn a_hundred_and_forty_in_line_for_seven() {
    let _turn = harness::turn();
    let sandbox = Sandbox::new("a100x1");
    let start = |_| sandbox.leased().args(["--tag", "first"]).spawn();
    let first: Vec<Running> = (0..7).map(start).collect();
    sandbox.until_running(7);
    let start = |number: u64| {
        let line = format!("cudawrap --wait -- sim-cuda --run 0.2 --tag {number}");
        let command = sandbox.words(&line).limit(LONG);
        match number % 3 {
            1 => as_other_user(command).spawn(),
            _ => command.spawn(),
        }
    };
    // In line before the next one comes, so that the order of arrival is known.
    let in_line = |number: u64| {
        let waiter = start(number);
        let waits = || waiter.stderr().contains("ahead of you");
        wait::until("it waits in the queue", waits);
        waiter
    };
    let waiters: Vec<Running> = (0..140).map(in_line).collect();
    let began = std::time::Instant::now();
    drop(first);
    for waiter in waiters {
        waiter.wait().exits(0);
    }
    let elapsed = began.elapsed();
    let mut runs = sandbox.runs();
    runs.retain(|run| run.tag != "first");
    runs.sort_by_key(|run| run.start);
    let order: Vec<usize> = runs.iter().map(|run| run.tag.parse().unwrap()).collect();
    assert_eq!(order.len(), 140);
    let pairs = order.len() * (order.len() - 1) / 2;
    let overtook = |place: usize| {
        let later = order[place + 1..].iter();
        later.filter(|later| **later < order[place]).count()
    };
    let inverted: usize = (0..140).map(overtook).sum();
    let ideal = 0.2 * 140.0 / 7.0;
    println!(
        "140 waiters, 7 devices, 0.2 s each: {inverted} of {pairs} pairs out of order, all over after {:.2} s, ideal {ideal} s",
        elapsed.as_secs_f64()
    );
    // The seven of one wave open their contexts each by itself, on a busy machine in any
    // order. Nobody is served before one who came a whole wave earlier.
    for (place, number) in order.iter().enumerate() {
        let late = order[place + 1..].iter().find(|late| **late + 7 <= *number);
        assert_eq!(late, None, "served after {number}: {order:?}");
    }
    sandbox.assert_exclusive();
    sandbox.assert_clean();
}

#[test]
fn twenty_who_want_two_at_a_time_are_all_served_in_turn() {
    let _turn = harness::turn();
    let sandbox = Sandbox::with("a100x1", "linger = '50ms'\nreserve_for = '10s'");
    let script = |number: u64| {
        format!(
            "d=$(getgpu -q -n 2 --wait) && CUDA_VISIBLE_DEVICES=$d sim-cuda --run 0.15 --tag {number}; true"
        )
    };
    let start = |number| sandbox.shell("bash", &script(number)).limit(LONG).spawn();
    let running: Vec<Running> = (0..20).map(start).collect();
    for each in running {
        each.wait().exits(0).says(&[]);
    }
    let tags: BTreeSet<String> = sandbox.runs().into_iter().map(|run| run.tag).collect();
    assert_eq!(tags.len(), 20);
    sandbox.assert_exclusive();
    // On a busy machine a holder may not see a program that runs for 0.15 s.
    sandbox.assert_clean();
}
