//! Other users and strange environments as attackers: planted files, locks by the ten
//! thousand, libraries that want to be loaded. What they can do is take devices, since
//! locks are advisory; what they cannot is mislead, hang or run code in our processes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is a failed test, and the figures are read"
)]

use std::fs::{self, OpenOptions, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use getgpu_tests::{OTHER, bytes};
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
    assert_eq!(sandbox.getgpu(["--count-free"]).run().line(), "6");
    sandbox.getgpu(["--release-all"]).run().exits(0);
    assert_eq!(sandbox.getgpu(["--count-free"]).run().line(), "7");
}

/// Without a number to draw a waiter looks for itself.
#[test]
fn a_line_without_a_last_number_serves_all_the_same() {
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
fn ten_thousands_of_parts_of_a_device_keep_nobody_longer_than_they_wait() {
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
fn a_hog_that_locks_again_and_again_only_takes_devices() {
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

/// What a stranger may have put where a user's private lock goes; every one is refused,
/// whatever the kernel's own protection says.
#[test]
fn planted_private_places_are_refused_unopened() {
    if skip::lacks(&[Need::Mounts, Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let victim = 61_236;
    let mine = format!("/tmp/getgpu-{victim}");
    let planted = [
        (
            "a directory of a stranger",
            "mkdir -m 777 $P && mkfifo -m 666 $P/lock && chown -R 1001 $P",
        ),
        (
            "a link to a directory of a stranger",
            "mkdir -m 777 $P.d && mkfifo $P.d/lock && ln -s $P.d $P",
        ),
        ("a link to nothing", "ln -s /nonexistent $P"),
        ("a file", "echo x >$P; chmod 666 $P"),
        ("a FIFO", "mkfifo -m 666 $P"),
        (
            "one's own directory that all may write to",
            "mkdir $P && chmod 777 $P && chown V $P",
        ),
        (
            "one's own with a file for a lock",
            "mkdir -m 700 $P && echo x >$P/lock && chown -R V $P",
        ),
        (
            "one's own with a link for a lock",
            "mkdir -m 700 $P && ln -s /etc/passwd $P/lock && chown -hR V $P",
        ),
        (
            "one's own with a stranger's FIFO",
            "mkdir -m 700 $P && mkfifo -m 666 $P/lock && chown V $P && chown 1001 $P/lock",
        ),
    ];
    for (what, plant) in planted {
        let plant = plant
            .replace("$P", &mine)
            .replace(" V ", &format!(" {victim} "));
        let script = format!(
            "mount -t tmpfs -o mode=755 run /run; {plant}; setpriv --reuid {victim} --clear-groups getgpu --for 60; s=$?; \
             rm -rf {mine} {mine}.d; exit $s"
        );
        let outcome = sandbox
            .command("unshare")
            .args(["-m", "sh", "-c", &script])
            .env_remove("GETGPU_LOCK")
            .run();
        assert_eq!(outcome.code(), Some(4), "{what}: {outcome:#?}");
        outcome.prints("").mentions("getgpu: lock ");
        assert_eq!(
            outcome
                .stderr
                .lines()
                .filter(|line| !line.starts_with("getgpu: hint: "))
                .count(),
            1,
            "{what}"
        );
    }
}

/// Whoever makes a user's private directory first may watch what that user makes in it
/// and swap it: so nothing is ever made there.
#[test]
fn nothing_is_made_in_a_strangers_directory() {
    if skip::lacks(&[Need::Mounts, Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let victim = 61_238;
    let script = format!(
        "P=/tmp/getgpu-{victim}; mount -t tmpfs -o mode=755 run /run; mkdir -m 777 $P && chown {OTHER} $P && touch -d @1000 $P; \
         setpriv --reuid {victim} --clear-groups getgpu --for 60; s=$?; stat -c %Y $P; rm -rf $P; exit $s"
    );
    let outcome = sandbox
        .command("unshare")
        .args(["-m", "sh", "-c", &script])
        .env_remove("GETGPU_LOCK")
        .run();
    outcome
        .exits(4)
        .prints("1000\n")
        .mentions("belongs to uid 1001, which is neither root nor you");
}

/// A chmod(2) by name follows whatever stands under the name by then, so the lock has its
/// mode from the first instant.
#[test]
fn the_lock_is_made_with_its_final_mode() {
    let sandbox = Sandbox::new("mig4");
    fs::remove_file(sandbox.lock()).unwrap();
    let (mut command, _out, _err) = sandbox
        .shell("sh", "umask 077; exec getgpu --no-reserve")
        .parts();
    let story = inject::follow(&mut command, None, |_| false, |_| ());
    let made = |numbers: &[i64]| {
        story
            .calls
            .iter()
            .any(|call| numbers.contains(&call.number))
    };
    assert!(
        made(&[libc::SYS_mknodat]) && story.status == 0,
        "{}",
        story.status
    );
    assert!(!made(&[libc::SYS_fchmodat]), "changed by name");
    assert_eq!(
        fs::symlink_metadata(sandbox.lock()).unwrap().mode() & 0o7777,
        0o666
    );
}

/// A library whose start writes down who loaded it.
fn trap(sandbox: &Sandbox, directory: &str) -> std::path::PathBuf {
    let source = format!(
        "#include <stdio.h>\n#include <sys/prctl.h>\n__attribute__((constructor)) static void hit(void) {{\n\
         char name[17] = \"\"; prctl(PR_GET_NAME, name); FILE *f = fopen(\"{}\", \"a\"); if (f) {{ fprintf(f, \"%s\\n\", name); fclose(f); }} }}\n\
         unsigned la_version(unsigned v) {{ return v; }}\n",
        sandbox.text("work/hits")
    );
    let source = sandbox.file(&format!("{directory}/trap.c"), &source, 0o644);
    let library = sandbox.path(&format!("{directory}/libnvidia-ml.so.1"));
    let words = [
        "-shared",
        "-fPIC",
        "-o",
        library.to_str().unwrap(),
        source.to_str().unwrap(),
    ];
    let built = std::process::Command::new("cc")
        .args(words)
        .status()
        .unwrap();
    assert!(built.success());
    library
}

/// The names of the processes that loaded the trap.
fn hits(sandbox: &Sandbox) -> Vec<String> {
    let file = sandbox.path("work/hits");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(file);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn planted_libraries_are_not_loaded() {
    if skip::lacks(&[Need::Tool("cc")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let library = trap(&sandbox, "work/evil");
    let evil = sandbox.path("work/evil");
    // An empty element, a dot and a relative one: the working directory. The real one
    // comes last.
    for search in [":", ".:", "evil:../work/evil:"] {
        let path = format!("{search}{}", sandbox.text("lib"));
        for words in [
            &["getgpu", "--no-reserve"][..],
            &["getgpu", "--list"],
            &["cudawrap", "--", "true"],
        ] {
            let command = sandbox
                .command(words[0])
                .args(&words[1..])
                .directory(&evil)
                .env("LD_LIBRARY_PATH", &path);
            command.run().exits(0);
            // The loader of a program that was started with such a path searches it for
            // what the program itself needs; that is the caller's own doing. NVML's
            // process and cudawrap's helper do not.
            assert_eq!(hits(&sandbox), [""; 0], "{search} {words:?}");
        }
    }
    // These two are the caller's wish for all that he starts; the helper that cudawrap
    // starts is not his.
    for name in ["LD_PRELOAD", "LD_AUDIT"] {
        sandbox
            .command("cudawrap")
            .args(["--", "/bin/true"])
            .env(name, &library)
            .run()
            .exits(0);
        let hits = hits(&sandbox);
        assert!(
            !hits.is_empty() && hits.iter().all(|hit| hit != "getgpu"),
            "{name}: {hits:?}"
        );
    }
}

/// Secure execution: a set-group-id copy believes no variable of ours.
#[test]
fn under_secure_execution_no_variable_is_believed() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::builder("mig4")
        .settings("idle_memory = '99M'")
        .build();
    for name in ["getgpu", "cudawrap"] {
        let copy = sandbox.path(&format!("work/secure/{name}"));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(sandbox.path("bin").join(name), &copy).unwrap();
        std::os::unix::fs::chown(&copy, Some(0), Some(61_237)).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o2755)).unwrap();
    }
    let show = |program: std::path::PathBuf| {
        sandbox
            .command(program)
            .args(["--show-config"])
            .uid(OTHER)
            .run()
            .stdout
    };
    assert!(
        show(sandbox.path("bin/getgpu")).contains("103809024"),
        "an ordinary copy reads GETGPU_CONFIG: {}",
        show(sandbox.path("bin/getgpu"))
    );
    let secure = show(sandbox.path("work/secure/getgpu"));
    assert!(
        !secure.is_empty() && !secure.contains("103809024") && !secure.contains(&sandbox.text("")),
        "{secure}"
    );
    let disabled = |program: &str| {
        sandbox
            .command(sandbox.path(program))
            .args(["--", "true"])
            .uid(OTHER)
            .env("CUDAWRAP_DISABLE", "1")
            .run()
    };
    disabled("bin/cudawrap").exits(0).says(&[]);
    assert_ne!(
        disabled("work/secure/cudawrap").code(),
        Some(0),
        "switched off by a variable"
    );
}

/// What stands where a file is looked for: nothing hangs, and nothing is read without
/// end.
#[test]
fn pipes_and_devices_in_the_place_of_files_hang_nobody() {
    let sandbox = Sandbox::new("mig4");
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
    for name in ["pipe", "home/.config/getgpu/config.toml"] {
        fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
        nix::unistd::mkfifo(&sandbox.path(name), mode).unwrap();
    }
    let user = sandbox
        .getgpu(["--no-reserve"])
        .limit(Duration::from_secs(10))
        .run();
    user.refuses(
        "getgpu",
        2,
        "home/.config/getgpu/config.toml: cannot be read: it is not a file",
    );
    fs::remove_file(sandbox.path("home/.config/getgpu/config.toml")).unwrap();
    for bad in [sandbox.text("pipe"), "/dev/zero".to_owned(), "/".to_owned()] {
        let outcome = sandbox
            .getgpu(["--no-reserve"])
            .env("GETGPU_CONFIG", &bad)
            .limit(Duration::from_secs(10))
            .run();
        outcome.refuses("getgpu", 2, ": cannot be read: ");
        sandbox.set_settings(&format!("allowed_file = {bad:?}"));
        let outcome = sandbox
            .getgpu(["--no-reserve"])
            .limit(Duration::from_secs(10))
            .run();
        outcome.refuses("getgpu", 2, ": cannot be read: ");
        sandbox.set_settings("");
    }
}
