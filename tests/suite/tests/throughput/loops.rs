//! The README's first line in a loop, in ten ways that people write it: programs one after
//! the other on one free device, and as many loops as there are devices, of two users. No
//! program meets another, none is without a device, and nothing stays reserved. In full,
//! with programs of four lengths, idle and under load: `make loops`.

use std::thread;
use std::time::Duration;

use getgpu_tests::OTHER;
use getgpu_tests::soak::number;
use harness::skip::{self, Need};
use harness::{Command, Running, Sandbox, wait};

/// How long devices may be reserved behind the last program in the full run: `linger`, and
/// as long again.
const AFTER: Duration = Duration::from_secs(4);

/// A way to write the loop: what runs it, and its text. COUNT and TIME stand for the number
/// of programs and how long each runs.
const WAYS: [(&str, &[&str]); 10] = [
    (
        "bash",
        &[
            "bash",
            "-c",
            "for i in $(seq COUNT); do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run TIME; done",
        ],
    ),
    (
        "dash",
        &[
            "dash",
            "-c",
            "for i in $(seq COUNT); do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run TIME; done",
        ],
    ),
    (
        "zsh",
        &[
            "zsh",
            "-fc",
            "for i in {1..COUNT}; do CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run TIME; done",
        ],
    ),
    (
        "fish",
        &[
            "fish",
            "-c",
            "for i in (seq COUNT); env CUDA_VISIBLE_DEVICES=(getgpu) sim-cuda --run TIME; end",
        ],
    ),
    (
        "env with backquotes",
        &[
            "sh",
            "-c",
            "for i in `seq COUNT`; do env CUDA_VISIBLE_DEVICES=`getgpu` sim-cuda --run TIME; done",
        ],
    ),
    (
        "xargs",
        &[
            "sh",
            "-c",
            "seq COUNT | xargs -I{} sh -c 'CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run TIME'",
        ],
    ),
    (
        "make",
        &[
            "sh",
            "-c",
            "printf '.PHONY: all\\nall: $(shell seq COUNT)\\n%%:\\n\\t@CUDA_VISIBLE_DEVICES=$$(getgpu) sim-cuda --run TIME\\n' | make -s -f -",
        ],
    ),
    (
        "perl",
        &[
            "perl",
            "-e",
            "for (1..COUNT) { chomp($ENV{CUDA_VISIBLE_DEVICES} = `getgpu`); system('sim-cuda', '--run', 'TIME') }",
        ],
    ),
    (
        "python, shell=True",
        &[
            "python3",
            "-c",
            "import subprocess\nfor _ in range(COUNT): subprocess.run('CUDA_VISIBLE_DEVICES=$(getgpu) sim-cuda --run TIME', shell=True)",
        ],
    ),
    (
        "python",
        &[
            "python3",
            "-c",
            "import os, subprocess\nfor _ in range(COUNT):\n    device = subprocess.check_output(['getgpu'], text=True).strip()\n    subprocess.run(['sim-cuda', '--run', 'TIME'], env=dict(os.environ, CUDA_VISIBLE_DEVICES=device))",
        ],
    ),
];

/// What the loops of one kind came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    rounds: usize,
    collisions: usize,
    without_device: usize,
    /// Devices that are reserved once they have had time to be given up.
    reserved: usize,
}

/// Runs loops of one way at once on as many free devices, every second one of another user.
/// Reservations have the time that `settle` takes to end.
fn loops(
    way: &[&str],
    at_once: usize,
    count: usize,
    time: &str,
    settle: impl Fn(&Sandbox),
) -> Tally {
    let sandbox = Sandbox::new("mig4");
    let others = sandbox.uuids().split_off(at_once);
    let held: Vec<Running> = others
        .iter()
        .map(|uuid| sandbox.leased().visible(uuid).spawn())
        .collect();
    sandbox.until_running(others.len());
    let text = |word: &&str| {
        word.replace("COUNT", &count.to_string())
            .replace("TIME", time)
    };
    let start = |number: usize| {
        let words: Vec<String> = way.iter().map(text).collect();
        let command: Command = sandbox.command(&words[0]).args(&words[1..]);
        let command = command.limit(Duration::from_secs(600));
        match number % 2 {
            0 => command.spawn(),
            _ => command.uid(OTHER).spawn(),
        }
    };
    let running: Vec<Running> = (0..at_once).map(start).collect();
    let said: Vec<String> = running
        .into_iter()
        .map(|running| running.wait().stdout)
        .collect();
    settle(&sandbox);
    let said = said.concat();
    let ran = said.lines().filter(|line| line.starts_with("RUN ")).count();
    let rounds = at_once * count;
    let tally = Tally {
        rounds,
        collisions: sandbox.collisions().len(),
        without_device: rounds - ran,
        reserved: sandbox.holders().len(),
    };
    drop(held);
    tally
}

fn lacks(way: &[&'static str]) -> bool {
    let programs = match way[0] {
        "sh" if way[2].contains("make") => vec![Need::Tool("make")],
        program => vec![Need::Tool(program)],
    };
    skip::lacks(&[Need::Root]) || skip::lacks(&programs)
}

#[test]
fn each_way_to_write_a_loop_has_a_device_in_each_round() {
    let expected = Tally {
        rounds: 6,
        ..Tally::default()
    };
    let one = |way| {
        loops(way, 2, 3, "0.3", |sandbox| {
            wait::until("nothing is reserved", || sandbox.holders().is_empty());
        })
    };
    // A few at once: all ten are more than 2 processors can be asked for.
    let ways: Vec<_> = WAYS.iter().filter(|(_, way)| !lacks(way)).collect();
    for few in ways.chunks(3) {
        thread::scope(|scope| {
            let runs = few
                .iter()
                .map(|(name, way)| (name, scope.spawn(|| one(way))));
            let runs: Vec<_> = runs.collect();
            for (name, run) in runs {
                assert_eq!(run.join().unwrap(), expected, "{name}");
            }
        });
    }
}

/// LOOP_COUNT (10) programs in each loop. Programs of 0.3 s and longer never fail; of those
/// that are shorter the rate is printed.
#[test]
#[ignore = "takes an hour"]
fn loops_in_full() {
    let _turn = harness::turn();
    let count = usize::try_from(number("LOOP_COUNT", 10)).unwrap();
    println!(
        "| load | way | loops | program | rounds | collisions | without a device | reserved after 4 s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut wrong = Vec::new();
    for load in ["idle", "8 busy processes"] {
        let busy = |_| {
            let command = std::process::Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .spawn();
            command.unwrap()
        };
        let mut busy: Vec<_> = (0..if load == "idle" { 0 } else { 8 }).map(busy).collect();
        for (name, way) in WAYS.iter().filter(|(_, way)| !lacks(way)) {
            for at_once in [1, 4] {
                for time in ["0.05", "0.3", "1", "2.5"] {
                    let tally = loops(way, at_once, count, time, |_| thread::sleep(AFTER));
                    let row = format!(
                        "| {load} | {name} | {at_once} | {time} s | {} | {} | {} | {} |",
                        tally.rounds, tally.collisions, tally.without_device, tally.reserved
                    );
                    println!("{row}");
                    if time != "0.05"
                        && tally.collisions + tally.without_device + tally.reserved > 0
                    {
                        wrong.push(row);
                    }
                }
            }
        }
        for process in &mut busy {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
