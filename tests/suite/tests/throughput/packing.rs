//! A course on one node: forty students with quarters of devices, repetitions packed by
//! xargs and GNU parallel, a queue of 140 for seven devices, and twenty requests for two
//! devices at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use getgpu_tests::{OTHER, loads};
use harness::{Command, Running, Sandbox, Signal, skip, wait};

const LONG: Duration = Duration::from_secs(120);

fn quarter(sandbox: &Sandbox, number: u64, time: &str) -> Command {
    let tag = number.to_string();
    let program = ["--", "sim-cuda", "--max", "4", "--run", time, "--tag", &tag];
    let command = sandbox
        .command("cudawrap")
        .args(["-q", "--share", "1/4", "--wait"])
        .args(program)
        .limit(LONG);
    if nix::unistd::geteuid().is_root() && number % 2 == 1 {
        command.uid(OTHER)
    } else {
        command
    }
}

#[test]
fn forty_quarters_on_seven_devices() {
    let _turn = crate::GROUPS.enter(module_path!());
    let sandbox = Sandbox::new("a100x1");
    // While it fills: the counts of devices differ by one at most, at each of the 28
    // steps.
    let mut filling: Vec<Running> = Vec::new();
    for number in 0..28 {
        filling.push(quarter(&sandbox, number, "forever").spawn());
        sandbox.until_running(filling.len());
        let loads = loads(&sandbox);
        let (least, most) = (loads.values().min().unwrap(), loads.values().max().unwrap());
        assert!(
            most - least <= 1,
            "after {} programs: {loads:?}",
            filling.len()
        );
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
    let ran: BTreeSet<String> = sandbox
        .folder()
        .runs()
        .unwrap()
        .into_iter()
        .map(|run| run.tag)
        .collect();
    assert_eq!(ran.len(), 40, "all forty have run");
    assert!(
        sandbox.folder().collisions().unwrap().is_empty(),
        "{:?}",
        sandbox.folder().collisions().unwrap()
    );
    sandbox.assert_clean(Duration::from_secs(2));
    assert_eq!(
        sandbox
            .getgpu(["--count-free", "--share", "1/4"])
            .run()
            .line(),
        "28"
    );
}

#[test]
fn forty_at_once_with_kills_all_end_well() {
    let _turn = crate::GROUPS.enter(module_path!());
    let sandbox = Sandbox::new("a100x1");
    let mut running: Vec<Running> = (0..40)
        .map(|number| quarter(&sandbox, number, "0.4").spawn())
        .collect();
    wait::until("some run", || sandbox.running() >= 4);
    for place in (0..40).filter(|number| number % 10 < 3) {
        running[place].signal(Signal::SIGKILL);
    }
    let outcomes: Vec<_> = running.drain(..).map(Running::wait).collect();
    let done = outcomes
        .iter()
        .filter(|outcome| outcome.code() == Some(0))
        .count();
    let killed = outcomes
        .iter()
        .filter(|outcome| outcome.signal() == Some(9))
        .count();
    println!("40 at once: {done} done, {killed} killed");
    assert_eq!(done + killed, 40, "{outcomes:#?}");
    assert!(sandbox.folder().collisions().unwrap().is_empty());
    sandbox.assert_clean(Duration::from_secs(2));
    assert_eq!(
        sandbox
            .getgpu(["--count-free", "--share", "1/4"])
            .run()
            .line(),
        "28"
    );
}

/// Eighty repetitions at half a device each, of which one crashes.
fn repetitions(sandbox: &Sandbox, launcher: &str) {
    sandbox.file(
        "work/rep",
        "#!/bin/sh\n[ $1 = 33 ] && exit 9\nexec sim-cuda --max 2 --run 0.1 --tag rep$1 --ready work$1\n",
        0o755,
    );
    let outcome = sandbox.shell("bash", launcher).limit(LONG).run();
    let runs = sandbox.folder().runs().unwrap();
    let tags: BTreeSet<&str> = runs.iter().map(|run| run.tag.as_str()).collect();
    assert_eq!(
        (runs.len(), tags.len()),
        (79, 79),
        "each ran once: {outcome:?}"
    );
    assert!(
        sandbox.folder().collisions().unwrap().is_empty(),
        "never three on a device"
    );
    let known: BTreeSet<String> = sandbox.uuids().into_iter().collect();
    assert!(runs.iter().all(|run| known.contains(&run.uuid)));
    let most = runs
        .iter()
        .map(|run| {
            runs.iter()
                .filter(|o| o.start <= run.start && o.end > Some(run.start))
                .count()
        })
        .max();
    println!("{launcher}: {most:?} at once, status {:?}", outcome.code());
    assert!(most <= Some(8) && most >= Some(5), "{most:?}");
    assert_ne!(outcome.code(), Some(0), "the crash is reported");
    sandbox.assert_clean(Duration::from_secs(1));
    assert_eq!(
        sandbox
            .getgpu(["--count-free", "--share", "1/2"])
            .run()
            .line(),
        "8",
        "its place is free again"
    );
}

#[test]
fn eighty_repetitions_through_xargs() {
    let _turn = crate::GROUPS.enter(module_path!());
    if skip::lacks(&[skip::Need::Tool("xargs")]) {
        return;
    }
    repetitions(
        &Sandbox::new("mig4"),
        "seq 80 | xargs -P 16 -I{} cudawrap -q --share 1/2 --wait -- ./rep {}",
    );
}

#[test]
fn eighty_repetitions_through_parallel() {
    let _turn = crate::GROUPS.enter(module_path!());
    if skip::lacks(&[skip::Need::Tool("parallel")]) {
        return;
    }
    repetitions(
        &Sandbox::new("mig4"),
        "parallel --will-cite -j12 cudawrap -q --share 1/2 --wait -- ./rep {} ::: $(seq 80)",
    );
}

#[test]
fn a_hundred_and_forty_in_line_for_seven() {
    let _turn = crate::GROUPS.enter(module_path!());
    let sandbox = Sandbox::new("a100x1");
    let first: Vec<Running> = (0..7)
        .map(|_| {
            sandbox
                .command("cudawrap")
                .args(["--", "sim-cuda", "--run", "forever", "--tag", "first"])
                .spawn()
        })
        .collect();
    sandbox.until_running(7);
    let start = |number: u64| {
        let tag = number.to_string();
        let program = ["--wait", "--", "sim-cuda", "--run", "0.2", "--tag", &tag];
        let command = sandbox.command("cudawrap").args(program).limit(LONG);
        (if nix::unistd::geteuid().is_root() && number % 3 == 1 {
            command.uid(OTHER)
        } else {
            command
        })
        .spawn()
    };
    let mut waiters = Vec::new();
    for number in 0..140 {
        waiters.push(start(number));
        // In line before the next one comes, so that the order of arrival is known.
        wait::until("it waits in the queue", || {
            waiters[waiters.len() - 1].stderr().contains("ahead of you")
        });
    }
    let began = std::time::Instant::now();
    drop(first);
    let outcomes: Vec<_> = waiters.into_iter().map(Running::wait).collect();
    let elapsed = began.elapsed();
    assert!(
        outcomes.iter().all(|outcome| outcome.code() == Some(0)),
        "{outcomes:#?}"
    );
    let mut runs = sandbox.folder().runs().unwrap();
    runs.retain(|run| run.tag != "first");
    runs.sort_by_key(|run| run.start);
    let order: Vec<usize> = runs.iter().map(|run| run.tag.parse().unwrap()).collect();
    assert_eq!(order.len(), 140);
    let pairs = order.len() * (order.len() - 1) / 2;
    let inverted: usize = (0..140)
        .map(|i| {
            order[i + 1..]
                .iter()
                .filter(|later| **later < order[i])
                .count()
        })
        .sum();
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
    sandbox.assert_clean(Duration::from_secs(2));
    // Nobody waited more than twice the ideal: that of the one who came at this place.
    let start = runs[0].start;
    for (place, run) in runs.iter().enumerate() {
        let late = (run.start - start) as f64 / 1e9;
        let fair = 0.2 * (run.tag.parse::<f64>().unwrap() / 7.0).floor();
        assert!(
            late <= 2.0 * fair + 1.0,
            "place {place}, arrival {}: {late:.2} s instead of {fair:.2} s",
            run.tag
        );
    }
}

#[test]
fn twenty_who_want_two_at_a_time_are_all_served_in_turn() {
    let _turn = crate::GROUPS.enter(module_path!());
    let sandbox = Sandbox::builder("a100x1")
        .settings("linger = '50ms'")
        .build();
    let script = |number: u64| {
        format!(
            "d=$(getgpu -q -n 2 --wait) && CUDA_VISIBLE_DEVICES=$d sim-cuda --run 0.15 --tag {number}; true"
        )
    };
    let start = |number| sandbox.shell("bash", &script(number)).limit(LONG).spawn();
    let outcomes: Vec<_> = (0..20)
        .map(start)
        .collect::<Vec<_>>()
        .into_iter()
        .map(Running::wait)
        .collect();
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.code() == Some(0) && outcome.stderr.is_empty()),
        "{outcomes:#?}"
    );
    let tags: BTreeSet<String> = sandbox
        .folder()
        .runs()
        .unwrap()
        .into_iter()
        .map(|run| run.tag)
        .collect();
    assert_eq!(tags.len(), 20);
    sandbox.assert_exclusive();
    sandbox.assert_clean(Duration::from_secs(2));
}
