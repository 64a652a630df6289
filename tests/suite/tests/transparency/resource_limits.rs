//! Limits of the process, the disk and the command line: a device, or one line with a
//! documented status and nothing held. Every exit status and signal passes through.

use getgpu_tests::wrapped::{Facts, wrap};
use getgpu_tests::{OTHER, root};
use harness::skip::{self, Need};
use harness::{Command, Outcome, Sandbox};

/// Waits until nothing is held, and asserts that what was said is a device, or one line
/// of `program` with one of its own statuses.
#[track_caller]
fn defined(sandbox: &Sandbox, program: &str, what: &str, outcome: &Outcome) -> bool {
    let loader = "error while loading shared libraries";
    if outcome.code() == Some(127) && outcome.stderr.contains(loader) {
        // The dynamic loader gave up before there was any code of ours.
        return false;
    }
    let Some(code @ 1..) = outcome.code() else {
        assert_eq!(outcome.code(), Some(0), "{what}: {outcome:#?}");
        return true;
    };
    let own: &[i32] = if program == "getgpu" {
        &[2, 3, 4]
    } else {
        &[125, 126]
    };
    assert!(own.contains(&code), "{what}: {outcome:#?}");
    outcome.refuses(code, "");
    sandbox.assert_clean();
    false
}

/// All ways to a device below the limits that `how` sets; the first is getgpu's own.
fn ways(sandbox: &Sandbox, how: &str) -> [(&'static str, Command); 3] {
    let [bin, app, out] = ["bin", "opt/app", "work/facts"].map(|name| sandbox.text(name));
    let shell = |words: String| sandbox.shell("sh", &format!("exec {how} {words}"));
    [
        ("getgpu", shell(format!("{bin}/getgpu --for 0.2"))),
        (
            "cudawrap",
            shell(format!("{bin}/cudawrap -- {bin}/probe --out {out}")),
        ),
        ("cudawrap", shell(format!("{app} --out {out}"))),
    ]
}

fn limited(how: &str, works: bool) {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "opt", "app", "probe");
    for (number, (program, command)) in ways(&sandbox, how).into_iter().enumerate() {
        let facts = sandbox.path("work/facts");
        let _ = std::fs::remove_file(&facts);
        let outcome = command.run();
        let ran = defined(&sandbox, program, how, &outcome);
        assert!(ran || !works, "{how}: {outcome:#?}");
        assert_eq!(facts.exists(), ran && number > 0, "{how}: {outcome:#?}");
        if facts.exists() {
            let facts = Facts::read(&facts);
            let leased = facts.leases(&sandbox, facts.visible().unwrap_or(""));
            let open = facts.descriptors_of(&sandbox.lock());
            let has_lease = !leased.is_empty() && leased.len() == open.len();
            assert!(has_lease, "{how}: without its lease: {open:?}");
        }
    }
    sandbox.assert_clean();
}

#[test]
fn few_and_many_descriptors() {
    for number in [3, 4, 5, 6, 7, 8, 10, 12] {
        limited(&format!("launch --nofile {number}"), false);
    }
    for number in [16, 256] {
        limited(&format!("launch --nofile {number}"), true);
    }
    let most = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
        .unwrap()
        .1;
    limited(&format!("launch --nofile {}", most.min(1_000_000)), true);
}

#[test]
fn little_memory_for_addresses() {
    if skip::lacks(&[Need::Tool("prlimit")]) {
        return;
    }
    // Below 13 MiB the kernel or the loader gives a debug build up: the next test.
    for megabytes in [16, 24, 32, 48] {
        limited(&format!("prlimit --as={}", megabytes << 20), false);
    }
    limited(&format!("prlimit --as={}", 64 << 20), true);
}

/// Runs `words` with address spaces of ever more KiB, from what the loader needs on to
/// `more` above it: nothing is aborted or panics, and somewhere there is too little to start.
fn starts_or_says_why(words: &[&str], status: i32, more: u64) {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("prlimit")], "mig4", "") else {
        return;
    };
    let below = |kib: u64| {
        let limit = format!("--as={}", kib << 10);
        let words = std::iter::once(limit.as_str()).chain(words.iter().copied());
        sandbox.command("prlimit").args(words).run()
    };
    // The kernel and the loader need most of it; what they leave ends somewhere above.
    let ours = |outcome: &Outcome| outcome.code() != Some(127) && outcome.signal().is_none();
    let least = (32..)
        .map(|step| 64 * step)
        .find(|kib| ours(&below(*kib)))
        .unwrap();
    let near = (least - 256..least + 768).step_by(8);
    let mut said = 0;
    for kib in near.chain((least + 768..least + more).step_by(256)) {
        let outcome = below(kib);
        let aborted = outcome.signal() == Some(nix::libc::SIGABRT);
        let bad = ["panicked", "memory allocation"];
        let told = bad.iter().any(|words| outcome.stderr.contains(words));
        assert!(!aborted && !told, "{kib} KiB: {outcome:#?}");
        if outcome.stderr.contains("not enough memory") {
            outcome.refuses(status, "not enough memory to start in");
            said += 1;
        }
    }
    assert!(said > 0, "nowhere between {least} KiB and what is enough");
}

#[test]
fn getgpu_does_not_abort_where_memory_ends_at_its_start() {
    starts_or_says_why(&["getgpu", "--no-reserve"], 4, 768);
}

#[test]
fn create_cudawrap_neither_aborts_nor_panics_where_memory_ends() {
    // Asks dpkg and rpm about it, where they are.
    starts_or_says_why(&["create-cudawrap", "--dry-run", "/usr/bin/env"], 1, 4096);
}

#[test]
fn no_more_processes() {
    if skip::lacks(&[Need::Root, Need::Tool("prlimit"), Need::Tool("setpriv")]) {
        return;
    }
    // A uid that has no other process: the limit counts them all.
    let how = "prlimit --nproc=1:1 setpriv --reuid=61235 --regid=61235 --clear-groups --";
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "opt", "app", "probe");
    for (program, command) in ways(&sandbox, how) {
        let outcome = command.run();
        assert!(!defined(&sandbox, program, how, &outcome), "{outcome:#?}");
        let status = if program == "getgpu" { 4 } else { 125 };
        let line = "Resource temporarily unavailable";
        outcome.exits(status).mentions(line);
    }
}

#[test]
fn no_file_may_grow() {
    let Some(sandbox) = Sandbox::given(&[Need::Tool("prlimit")], "mig4", "") else {
        return;
    };
    // The answer goes into a file of the harness: SIGXFSZ or EFBIG, and nothing stays
    // reserved.
    let script = "exec 2>/dev/null; exec prlimit --fsize=0 getgpu --for 60";
    let outcome = sandbox.shell("sh", script).run();
    assert_ne!(outcome.code(), Some(0));
    outcome.prints("");
    sandbox.assert_clean();
    // A program writes nothing of ours on its way.
    let script = "exec prlimit --fsize=0 cudawrap -- true";
    sandbox.shell("sh", script).run().exits(0);
}

#[test]
fn a_command_line_that_just_fits() {
    let sandbox = Sandbox::new("mig4");
    let uuid = sandbox.uuids()[0].clone();
    let probe = sandbox.path("bin/probe");
    // An argument of 128 KiB is the longest there is; a limit of 512 KiB of stack leaves
    // 128 KiB for all of them.
    let run = |program: &[&str], filler: usize| {
        let mut words = vec!["x".repeat(1000); filler / 1000];
        words.push("x".repeat(filler % 1000 + 1));
        let command = sandbox.words("prlimit --stack=2097152").visible(&uuid);
        command.args(program).args(words).run()
    };
    let direct = [probe.to_str().unwrap()];
    let fits = |filler: &usize| run(&direct, *filler).code() == Some(0);
    let (mut least, mut most) = (300_000, 700_000);
    assert!(fits(&least) && !fits(&most), "the limit is elsewhere");
    while most - least > 1 {
        let middle = least.midpoint(most);
        *(if fits(&middle) { &mut least } else { &mut most }) = middle;
    }
    let wrapper = sandbox.text("bin/cudawrap");
    let wrapped = [wrapper.as_str(), "--", probe.to_str().unwrap()];
    let (mut ran, mut refused) = (0, 0);
    for filler in (least - 400..=least).step_by(40) {
        let outcome = run(&wrapped, filler);
        match outcome.code() {
            Some(0) => ran += 1,
            // The kernel refuses cudawrap itself, in the words of prlimit.
            Some(126) if outcome.stderr.starts_with("prlimit") => refused += 1,
            _ => {
                outcome.refuses(126, "Argument list too long");
                refused += 1;
            }
        }
        sandbox.assert_clean();
    }
    assert!(ran > 0 && refused > 0, "{ran} {refused}");
}

#[test]
fn every_exit_status() {
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "probe");
    let uuid = sandbox.uuids()[0].clone();
    for code in 0..=255 {
        let command = sandbox.command(&app).visible(&uuid);
        command
            .args(["--exit", &code.to_string()])
            .run()
            .exits(code);
    }
}

#[test]
fn every_signal_with_its_core_flag() {
    use std::os::unix::process::ExitStatusExt;
    let sandbox = Sandbox::new("mig4");
    let app = wrap(&sandbox, "opt", "app", "probe");
    let stops = [17, 18, 19, 20, 21, 22, 23, 28];
    for signal in (1..=31).filter(|signal| !stops.contains(signal)) {
        let run = |program: &std::path::Path| {
            let program = program.display();
            let script = format!("ulimit -c 100000; exec {program} --kill {signal}");
            let command = sandbox.shell("bash", &script).visible(&sandbox.uuids()[0]);
            let status = command.run().status;
            (status.signal(), status.core_dumped())
        };
        let (wrapped, direct) = (run(&app), run(&sandbox.path("bin/probe")));
        assert_eq!((wrapped, wrapped.0), (direct, Some(signal)));
    }
}

#[test]
fn a_user_without_a_home() {
    let Some(sandbox) = root("mig4") else { return };
    let ask = || sandbox.words("getgpu --no-reserve").uid(OTHER);
    ask().env_remove("HOME").run().exits(0);
    ask().env("HOME", "/nonexistent").run().exits(0);
}
