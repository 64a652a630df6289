//! Figures of many: launches on a whole node, foreign ranges on the lock, GPUs in a node.
//! `getgpu-bench-many`, from a release build; the programs are found beside it, and the C
//! client is built with `cc`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "its output is the table, and a panic is a failed run"
)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use getgpu_bench::{Contender, race};
use harness::{Running, Sandbox, Signal, wait};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::killpg;
use nix::unistd::Pid;

/// What a real driver takes, from measurements of others: 10 ms to start, 29 ms for each
/// GPU that is touched, 50 us a call.
const LATENCY: &str = "latency = { init_ms = 10, attach_ms = 29, call_us = 50 }";

fn main() {
    sizes();
    ranges();
    for count in [10, 300, 3000] {
        processes(count);
    }
    launches(1000, "20ms", &[Way::ByHand, Way::Cudawrap]);
    // A program has to run for longer than its reservation's holder needs to see it,
    // which on two processors with 56 at a time takes a while.
    launches(1000, "300ms", &[Way::ByHand, Way::Cudawrap, Way::Getgpu]);
}

/// The C client, built into this sandbox.
fn client(sandbox: &Sandbox) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("client.c");
    let program = sandbox.path("bin/client");
    assert!(
        Command::new("cc")
            .arg("-O2")
            .arg("-o")
            .arg(&program)
            .arg(source)
            .arg("-ldl")
            .status()
            .unwrap()
            .success()
    );
    program
}

/// A command as the sandbox runs it.
fn command(sandbox: &Sandbox, words: &[&str]) -> Command {
    sandbox.command(words[0]).args(&words[1..]).parts().0
}

/// A pick and a listing on nodes of 1 to 16 GPUs with seven MIG devices each.
fn sizes() {
    for gpus in [1, 2, 4, 8, 16] {
        let node = format!(
            "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = {gpus}\nmig = true\nlayout = '7x1g.5gb'\n"
        );
        let sandbox = Sandbox::new(&node);
        client(&sandbox);
        sandbox.folder().log_calls().unwrap();
        sandbox.getgpu(["--no-reserve"]).run().line();
        let (calls, touched) = (
            sandbox.folder().calls().unwrap(),
            sandbox.folder().attaches().unwrap(),
        );
        println!(
            "== {gpus} GPUs: a pick makes {} NVML calls and touches {} GPU",
            calls.len() - touched.len(),
            touched.len()
        );
        std::fs::remove_file(sandbox.folder().path("calls.log")).unwrap();
        sandbox.faults(LATENCY);
        let words: [(&str, &[&str]); 5] = [
            ("C client, first device", &["client"]),
            ("getgpu", &["getgpu", "--for", "0"]),
            ("C scan of all devices", &["client", "all"]),
            ("C scan with names and places", &["client", "names"]),
            ("getgpu --list", &["getgpu", "--list"]),
        ];
        race(
            20,
            &mut words.map(|(name, words)| Contender::new(name, command(&sandbox, words))),
        );
    }
}

/// So many ranges that other programs hold on the lock.
fn flood(sandbox: &Sandbox, ranges: i64) -> File {
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(sandbox.lock())
        .unwrap();
    for place in 0..ranges {
        // Behind all places of devices, and before them, in turn.
        let start = if place % 2 == 0 {
            0x7fff_0000_0000_0000
        } else {
            1 << 33
        } + place * 3;
        let range = libc::flock {
            l_type: libc::F_RDLCK as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: start,
            l_len: 1,
            l_pid: 0,
        };
        fcntl(&lock, FcntlArg::F_OFD_SETLK(&range)).unwrap();
    }
    lock
}

fn ranges() {
    let counts = [0, 1, 10, 100, 1_000, 10_000];
    let sandboxes: Vec<(Sandbox, File)> = counts
        .map(|count| {
            let sandbox = Sandbox::new("a100x8");
            let lock = flood(&sandbox, count);
            (sandbox, lock)
        })
        .into();
    for words in [
        &["getgpu", "--no-reserve"][..],
        &["cudawrap", "--", "true"],
        &["getgpu", "--list"],
    ] {
        println!("== {} with foreign ranges on the lock", words.join(" "));
        let contenders = sandboxes.iter().zip(counts);
        let mut contenders: Vec<Contender> = contenders
            .map(|((sandbox, _), count)| {
                Contender::new(&format!("{count} ranges"), command(sandbox, words))
            })
            .collect();
        race(50, &mut contenders);
    }
}

/// A pick and a start among so many processes of another user, or of our own without
/// root.
fn processes(count: usize) {
    let sandbox = Sandbox::new("a100x8");
    client(&sandbox);
    let script = format!("echo $$; for i in $(seq {count}); do sleep 600 & done; echo all; wait");
    let apart = sandbox
        .command("setsid")
        .args(["-f", "dash", "-c", &script]);
    let crowd = if nix::unistd::geteuid().is_root() {
        apart.uid(1001)
    } else {
        apart
    }
    .spawn();
    wait::until("all run", || crowd.stdout().ends_with("all\n"));
    println!("== {count} other processes on the node");
    let words: [(&str, &[&str]); 4] = [
        ("C client", &["client"]),
        ("getgpu --no-reserve", &["getgpu", "--no-reserve"]),
        ("getgpu", &["getgpu", "--for", "0"]),
        ("cudawrap -- true", &["cudawrap", "--", "true"]),
    ];
    race(
        50,
        &mut words.map(|(name, words)| Contender::new(name, command(&sandbox, words))),
    );
    let leader = crowd.stdout().lines().next().unwrap().parse().unwrap();
    killpg(Pid::from_raw(leader), Signal::SIGKILL).unwrap();
}

/// How a launched program comes to its device.
#[derive(Clone, Copy)]
enum Way {
    /// Each of 56 programs has its own from the start.
    ByHand,
    /// `cudawrap --wait -- PROGRAM`.
    Cudawrap,
    /// `d=$(getgpu --wait)`, then the program.
    Getgpu,
}

impl Way {
    fn start(self, sandbox: &Sandbox, device: &str, time: &str) -> Running {
        let command = match self {
            Self::ByHand => sandbox
                .command("sim-cuda")
                .args(["--run", time])
                .visible(device),
            Self::Cudawrap => sandbox
                .command("cudawrap")
                .args(["--wait", "--", "sim-cuda", "--run", time]),
            Self::Getgpu => {
                let script = format!(
                    "d=$(getgpu --wait) || exit; CUDA_VISIBLE_DEVICES=$d exec sim-cuda --run {time}"
                );
                sandbox.shell("dash", &script)
            }
        };
        command.limit(Duration::from_secs(600)).spawn()
    }
}

/// So many launches on 56 devices, 56 at a time, of a program that runs for this time;
/// each is replaced as soon as it exits.
fn launches(count: usize, time: &str, ways: &[Way]) {
    println!("== {count} launches on 56 devices, 56 at a time, programs of {time}");
    let mut by_hand = None;
    for way in ways {
        let sandbox = Sandbox::new("a100x8");
        let uuids = sandbox.uuids();
        let start = |place: usize| way.start(&sandbox, &uuids[place], time);
        let began = Instant::now();
        let mut running: Vec<Running> = (0..uuids.len()).map(start).collect();
        let mut started = running.len();
        while !running.is_empty() {
            let mut over = None;
            wait::until("one has exited", || {
                over = running.iter_mut().position(Running::is_over);
                over.is_some()
            });
            let place = over.unwrap();
            if started < count {
                started += 1;
                std::mem::replace(&mut running[place], start(place))
                    .wait()
                    .exits(0);
            } else {
                running.swap_remove(place).wait().exits(0);
            }
        }
        let time = began.elapsed().as_secs_f64();
        sandbox.assert_exclusive();
        assert_eq!(sandbox.folder().runs().unwrap().len(), count);
        let by_hand = *by_hand.get_or_insert(time);
        let name = match way {
            Way::ByHand => "devices given by hand",
            Way::Cudawrap => "cudawrap --wait -- PROGRAM",
            Way::Getgpu => "CUDA_VISIBLE_DEVICES=$(getgpu --wait)",
        };
        println!(
            "{name:<38} {time:>6.2} s  {:>6.0} a second  x {:.2}",
            count as f64 / time,
            time / by_hand
        );
    }
}
