//! Other users lock ranges by the ten thousand, in a loop, or try to put another file in
//! the lock's place.

use std::fs::{self, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use getgpu_tests::{OTHER, bytes, listing};
use harness::skip::{self, Need};
use harness::{Sandbox, size};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

fn lock_range(file: &impl AsFd, kind: i32, start: i64, length: i64) -> nix::Result<i32> {
    let range = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: length,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&range))
}

/// The longest of 95 in 100 starts.
fn p95(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 95 / 100]
}

fn starts(sandbox: &Sandbox, count: usize) -> Duration {
    let start = || {
        let began = Instant::now();
        sandbox
            .command("cudawrap")
            .args(["--", "true"])
            .run()
            .exits(0)
            .says(&[]);
        began.elapsed()
    };
    p95((0..count).map(|_| start()).collect())
}

#[test]
fn tens_of_thousands_of_ranges_mislead_nobody() {
    let sandbox = Sandbox::new("a100x1");
    let quiet = starts(&sandbox, size(20, 200));
    let flood = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(sandbox.lock())
        .unwrap();
    // In the last slot, which no device uses: behind everything else, so that every
    // search walks past them, or in front of it.
    let count = size(5_000, 50_000) as i64;
    for place in 0..count {
        let start = if place % 2 == 0 {
            0x7fff_0000_0000_0000
        } else {
            1 << 33
        } + place * 3;
        lock_range(&flood, libc::F_RDLCK, start, 1).unwrap();
    }
    let flooded = starts(&sandbox, size(20, 200));
    println!("{count} ranges: p95 of a start {flooded:?}, without them {quiet:?}");
    let uuid = sandbox.getgpu(["--for", "60"]).run().line();
    assert!(sandbox.uuids().contains(&uuid));
    assert_eq!(listing::free_devices(&sandbox), "6");
    sandbox.getgpu(["--release-all"]).run().exits(0);
    assert_eq!(listing::free_devices(&sandbox), "7");
}

/// The kernel walks past every lock of the file for each of these calls, and anybody can
/// have many.
#[test]
fn few_calls_are_made_to_a_lock_that_anybody_can_fill() {
    if skip::lacks(&[Need::Tool("strace")]) {
        return;
    }
    let sandbox = Sandbox::new("a100x8");
    let calls = |words: &[&str]| {
        let trace = sandbox.path("work/trace");
        let run = sandbox.command("strace").args(["-f", "-qq", "-o"]);
        let run = run
            .args([trace.as_os_str()])
            .args(["-e", "trace=fcntl,openat"]);
        run.args(words).run().exits(0);
        let text = fs::read_to_string(&trace).unwrap();
        let lock = sandbox.lock().display().to_string();
        let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        (count("F_OFD_"), count(&lock))
    };
    sandbox.getgpu(["--list"]).run().exits(0);
    // 56 free devices; the queue; who waits.
    assert_eq!(calls(&["getgpu", "--list"]), (3, 2));
    // The queue, the device, the try, the other side, the settling, and three on each of
    // two descriptions that the program inherits.
    assert_eq!(calls(&["cudawrap", "--", "true"]), (11, 5));
}

/// Without a number to draw a waiter looks for itself.
#[test]
fn a_queue_whose_last_ticket_is_locked_still_serves() {
    let sandbox = Sandbox::new("h200x1");
    for whole in [true, false] {
        let stranger = bytes::open(&sandbox);
        if whole {
            bytes::lock(&stranger, libc::F_WRLCK, bytes::NUMBERS, bytes::ALL_NUMBERS).unwrap();
        } else {
            for line in 1..=3000 {
                bytes::lock(
                    &stranger,
                    libc::F_WRLCK,
                    bytes::NUMBERS + (line << 22) - 1,
                    1,
                )
                .unwrap();
            }
        }
        let held = sandbox
            .command("cudawrap")
            .args(["--wait=20", "--", "sim-cuda", "--run", "1"])
            .spawn();
        sandbox.until_running(1);
        let words = [
            ["cudawrap", "--wait=20", "--", "true"].as_slice(),
            &["getgpu", "--wait=20", "--no-reserve"],
        ];
        let waiters = words.map(|words| sandbox.command(words[0]).args(&words[1..]).spawn());
        for waiter in waiters {
            waiter.wait().exits(0);
        }
        held.wait().exits(0);
    }
}

/// The kernel walks past every lock for each answer, so reading all of them takes the
/// square of their number.
#[test]
fn ten_thousands_of_locked_pieces_delay_nobody_beyond_the_limit() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let flood = bytes::open(&sandbox);
    let all = sandbox.uuids();
    let count = size(14_000, 20_000) as i64;
    for place in (0..count).rev() {
        bytes::lock(
            &flood,
            libc::F_RDLCK,
            bytes::span(&all[0]) + bytes::LEASE + place * 3,
            1,
        )
        .unwrap();
    }
    let held: Vec<_> = all[1..]
        .iter()
        .map(|uuid| sandbox.getgpu(["--for=600", "--gpu", uuid]).run().line())
        .collect();
    assert_eq!(held.len(), 3);
    for (share, visible) in [
        (&[][..], None),
        (&["--share", "1/2"], None),
        (&[], Some(&all[0])),
    ] {
        let words = [&["--wait=1"], share, &["--", "true"]].concat();
        let command = sandbox.command("cudawrap").args(words).uid(OTHER);
        let outcome = if let Some(uuid) = visible {
            command.visible(uuid)
        } else {
            command
        }
        .run();
        println!("{share:?} {visible:?}: {:?}", outcome.elapsed);
        outcome.exits(75);
        assert!(
            outcome.elapsed < Duration::from_secs(4),
            "{share:?} {visible:?}: {:?}",
            outcome.elapsed
        );
    }
}

/// Somebody locks and unlocks everything as fast as it goes, and somebody reads
/// /proc/locks all the time.
#[test]
fn a_process_that_locks_in_a_loop_only_takes_devices() {
    let sandbox = Sandbox::new("a100x1");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let hog = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(sandbox.lock())
                .unwrap();
            while !over.load(Ordering::Relaxed) {
                let _ = lock_range(&hog, libc::F_WRLCK, 0, 0);
                let _ = lock_range(&hog, libc::F_UNLCK, 0, 0);
                std::thread::yield_now();
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = fs::read("/proc/locks");
            }
        });
        let (mut ran, mut none) = (0, 0);
        for _ in 0..size(40, 1000) {
            let outcome = sandbox.command("cudawrap").args(["--", "sim-cuda"]).run();
            match outcome.code() {
                Some(0) => ran += 1,
                Some(75) => none += 1,
                _ => {
                    outcome.refuses("cudawrap", 125, "lock");
                    none += 1;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        println!("under a hog: {ran} ran, {none} told that none is free");
        assert!(ran > 0, "none of {none} ran");
        assert_eq!(sandbox.folder().runs().unwrap().len(), ran);
    });
    sandbox.assert_exclusive();
    sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .run()
        .exits(0);
}

/// The attack on lock files in a sticky directory: put another file in the place of the
/// lock, and two users get one device.
#[test]
fn nobody_but_root_can_put_another_lock_in_its_place() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let before = fs::symlink_metadata(sandbox.lock()).unwrap().ino();
    let directory = sandbox.lock().parent().unwrap().display().to_string();
    let tries = size(200, 10_000);
    let script = format!(
        "cd {directory} && i=0; while [ $i -lt {tries} ]; do mv lock other; ln -s /dev/null new; mkfifo fifo; rm -f lock; \
         mv /tmp/none lock; i=$((i + 1)); done 2>/dev/null; touch {}",
        sandbox.text("work/done")
    );
    let attacker = sandbox
        .shell("dash", &script)
        .uid(OTHER)
        .limit(Duration::from_secs(600))
        .spawn();
    let mut starts = 0;
    while !sandbox.path("work/done").exists() {
        let users = [1002, 1003].map(|uid| {
            sandbox
                .command("cudawrap")
                .args(["--", "sim-cuda"])
                .uid(uid)
                .spawn()
        });
        for user in users {
            user.wait().exits(0);
        }
        starts += 2;
    }
    attacker.wait().exits(0);
    assert_eq!(fs::symlink_metadata(sandbox.lock()).unwrap().ino(), before);
    assert!(sandbox.beside_lock().is_empty());
    sandbox.assert_exclusive();
    println!(
        "{tries} times every way to replace the lock, {starts} starts of two others: no way, 0 collisions"
    );
}
