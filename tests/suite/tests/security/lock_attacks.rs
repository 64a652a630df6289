//! Other users lock ranges by the ten thousand, in a loop, or try to put another file in
//! the lock's place.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use getgpu_tests::{OTHER, bytes, listing, root};
use harness::skip::Need;
use harness::{Sandbox, size};
use nix::libc;

/// The longest of 95 in 100 starts.
fn p95(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 95 / 100]
}

fn starts(sandbox: &Sandbox, count: usize) -> Duration {
    let start = || {
        let began = Instant::now();
        sandbox.words("cudawrap -- true").run().exits(0).says(&[]);
        began.elapsed()
    };
    p95((0..count).map(|_| start()).collect())
}

#[test]
fn tens_of_thousands_of_ranges_mislead_nobody() {
    let sandbox = Sandbox::new("a100x1");
    let quiet = starts(&sandbox, size(20, 200));
    let flood = bytes::open(&sandbox);
    // In the last slot, which no device uses: behind everything else, so that every
    // search walks past them, or in front of it.
    let count = size(5_000, 50_000) as i64;
    for place in 0..count {
        let slot = [0x7fff_0000_0000_0000, 1 << 33][place as usize % 2];
        bytes::lock(&flood, libc::F_RDLCK, slot + place * 3, 1).unwrap();
    }
    let flooded = starts(&sandbox, size(20, 200));
    println!("{count} ranges: p95 of a start {flooded:?}, without them {quiet:?}");
    let uuid = sandbox.line("--for 60");
    assert!(sandbox.uuids().contains(&uuid));
    assert_eq!(listing::free_devices(&sandbox), "6");
    sandbox.ask("--release-all").exits(0);
    assert_eq!(listing::free_devices(&sandbox), "7");
}

/// The kernel walks past every lock of the file for each of these calls, and anybody can
/// have many.
#[test]
fn few_calls_are_made_to_a_lock_that_anybody_can_fill() {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("strace")], "a100x8", "") else {
        return;
    };
    let calls = |words: &str| {
        let trace = sandbox.path("work/trace");
        let line = "strace -f -qq -e trace=fcntl,openat -o work/trace ";
        let run = sandbox.words(&format!("{line}{words}"));
        run.directory(sandbox.root()).run().exits(0);
        let text = fs::read_to_string(&trace).unwrap();
        let lock = sandbox.lock().display().to_string();
        let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        (count("F_OFD_"), count(&lock))
    };
    sandbox.ask("--list").exits(0);
    // 56 free devices; the queue; who waits; for whom devices are kept.
    assert_eq!(calls("getgpu --list"), (4, 2));
    // The queue, the device, the try, the other side, the settling, and three on each of
    // two descriptions that the program inherits.
    assert_eq!(calls("cudawrap -- true"), (11, 5));
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
                let last = bytes::NUMBERS + (line << 22) - 1;
                bytes::lock(&stranger, libc::F_WRLCK, last, 1).unwrap();
            }
        }
        let held = "cudawrap --wait=20 -- sim-cuda --run 1";
        let held = sandbox.words(held).spawn();
        sandbox.until_running(1);
        let words = [
            "cudawrap --wait=20 -- true",
            "getgpu --wait=20 --no-reserve",
        ];
        let waiters = words.map(|words| sandbox.words(words).spawn());
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
    let Some(sandbox) = root("mig4") else { return };
    let flood = bytes::open(&sandbox);
    let all = sandbox.uuids();
    let count = size(14_000, 20_000) as i64;
    for place in (0..count).rev() {
        let piece = bytes::span(&all[0]) + bytes::LEASE + place * 3;
        bytes::lock(&flood, libc::F_RDLCK, piece, 1).unwrap();
    }
    for uuid in &all[1..] {
        sandbox.line(&format!("--for=600 --gpu {uuid}"));
    }
    for (share, visible) in [("", None), (" --share 1/2", None), ("", Some(&all[0]))] {
        let command = sandbox.words(&format!("cudawrap --wait=1{share} -- true"));
        let command = command.uid(OTHER);
        let outcome = match visible {
            Some(uuid) => command.visible(uuid).run(),
            None => command.run(),
        };
        println!("{share:?} {visible:?}: {:?}", outcome.elapsed);
        outcome.exits(75);
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
            let hog = bytes::open(&sandbox);
            while !over.load(Ordering::Relaxed) {
                let _ = bytes::lock(&hog, libc::F_WRLCK, 0, 0);
                let _ = bytes::lock(&hog, libc::F_UNLCK, 0, 0);
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
            let outcome = sandbox.words("cudawrap -- sim-cuda").run();
            match outcome.code() {
                Some(0) => ran += 1,
                Some(75) => none += 1,
                _ => {
                    outcome.refuses(125, "lock");
                    none += 1;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        println!("under a hog: {ran} ran, {none} told that none is free");
        assert!(ran > 0, "none of {none} ran");
        assert_eq!(sandbox.runs().len(), ran);
    });
    sandbox.assert_exclusive();
    sandbox.words("cudawrap -- true").run().exits(0);
}

/// The attack on lock files in a sticky directory: put another file in the place of the
/// lock, and two users get one device.
#[test]
fn nobody_but_root_can_put_another_lock_in_its_place() {
    let Some(sandbox) = root("mig4") else { return };
    let before = fs::symlink_metadata(sandbox.lock()).unwrap().ino();
    let directory = sandbox.lock().parent().unwrap().display().to_string();
    let tries = size(200, 10_000);
    let script = format!(
        "cd {directory} && i=0; while [ $i -lt {tries} ]; do mv lock other; ln -s /dev/null new; mkfifo fifo; rm -f lock; \
         mv /tmp/none lock; chmod 0 lock; ln lock x; i=$((i + 1)); done 2>/dev/null; touch {}",
        sandbox.text("work/done")
    );
    let attacker = sandbox.shell("dash", &script).uid(OTHER);
    let attacker = attacker.limit(Duration::from_secs(600)).spawn();
    let mut starts = 0;
    while !sandbox.path("work/done").exists() {
        let users = [1002, 1003].map(|uid| sandbox.words("cudawrap -- sim-cuda").uid(uid).spawn());
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

fn own_pid() -> i64 {
    i64::from(std::process::id())
}

/// The processes that a listing names for a device. A child that another test has just
/// forked has this process's descriptors too.
fn holder_pids(listed: &serde_json::Value, uuid: &str) -> Vec<i64> {
    let holders = listing::device(listed, uuid)["holders"].as_array().unwrap();
    holders
        .iter()
        .filter_map(|holder| holder["pid"].as_i64())
        .collect()
}

/// Any user can lock bytes that stand for another user and another process. They limit
/// no user who holds nothing, and root reads who really has the device.
#[test]
fn forged_signatures_limit_no_other_user() {
    let Some(sandbox) = Sandbox::given(&[Need::Root], "mig4", "max_per_user = 1") else {
        return;
    };
    let victim = sandbox.words("sleep 1000").uid(OTHER).spawn();
    let span = bytes::span(&sandbox.uuids()[0]);
    let attacker = bytes::open(&sandbox);
    let lock = |start, count| bytes::lock(&attacker, libc::F_RDLCK, start, count).unwrap();
    lock(span + bytes::LEASE, 1);
    lock(span + bytes::LEASE_UIDS + i64::from(OTHER), 1);
    let unsigned = sandbox.words("cudawrap -- true").uid(OTHER).run();
    unsigned.exits(0).says(&[]);
    lock(span + bytes::LEASE_PIDS + i64::from(victim.pid()), 1);
    let signed = sandbox.words("cudawrap -- true").uid(OTHER).run();
    signed.exits(0).says(&[]);
    let listed = listing::json(&sandbox);
    let pids = holder_pids(&listed, &sandbox.uuids()[0]);
    assert!(pids.contains(&own_pid()), "{listed}");
    assert!(!pids.contains(&i64::from(victim.pid())), "{listed}");
    // Of a process that this user may not look at, its uid has to be there too.
    lock(span + bytes::LEASE_PIDS + 1, 1);
    let listed = sandbox.ask_as(OTHER, "--list --json").output();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let pids = holder_pids(&listed, &sandbox.uuids()[0]);
    assert!(!pids.contains(&1), "{listed}");
}

/// One lock on everything signs for no user.
#[test]
fn one_lock_on_the_whole_file_names_no_user() {
    let Some(sandbox) = Sandbox::given(&[Need::Root], "mig4", "max_per_user = 1") else {
        return;
    };
    let attacker = bytes::open(&sandbox);
    bytes::lock(&attacker, libc::F_RDLCK, 0, i64::MAX).unwrap();
    let table = sandbox.ask("--list");
    table.exits(0);
    // A program that another test starts has a copy of this lock until it is executed.
    assert!(table.stdout.lines().count() <= 40, "{}", table.stdout);
    let listed = listing::json(&sandbox);
    for uuid in sandbox.uuids() {
        assert!(holder_pids(&listed, &uuid).contains(&own_pid()), "{listed}");
    }
    let refused = sandbox.words("cudawrap -- true").uid(OTHER).run();
    refused.exits(75).mentions("no free device");
}
