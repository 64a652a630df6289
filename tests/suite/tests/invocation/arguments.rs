//! A wrapped program's arguments, name and variables arrive byte for byte.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use getgpu_tests::wrapped::{Facts, put, wrap};
use harness::Sandbox;

use crate::program_search::{ran, run};

#[test]
fn every_argument_reaches_the_program_byte_by_byte() {
    let sandbox = Sandbox::new("mig4");
    let link = wrap(&sandbox, "work/a", "app", "probe");
    let lists: [&[&[u8]]; 8] = [
        &[],
        &[b""],
        &[b"--help"],
        &[b"-V", b"--version", b"-q", b"--type", b"nonsense"],
        &[b"--", b"--", b"app"],
        &[b"", b" ", b"\n", b"a b", b"*", b"$HOME", b"'", b"\\"],
        &[b"\xff\xfe", b"caf\xe9", b"\x01\x7f", "\u{1f980}".as_bytes()],
        &[b"--type=mig", b"-i", b"--no-such-option"],
    ];
    let long: Vec<Vec<u8>> = (0..5000)
        .map(|n| format!("argument number {n}").into_bytes())
        .collect();
    let long: Vec<&[u8]> = long.iter().map(Vec::as_slice).collect();
    for list in lists.into_iter().chain([long.as_slice()]) {
        let words: Vec<&OsStr> = list.iter().map(|bytes| OsStr::from_bytes(bytes)).collect();
        let shown = list.iter().map(|bytes| bytes.escape_ascii().to_string());
        let shown: Vec<String> = shown.collect();
        let hidden = link.with_file_name("CUDAWRAP_app");
        let plain = sandbox.words("cudawrap --").args([hidden]);
        for command in [sandbox.command(&link), plain] {
            let outcome = command.args(&words).run();
            outcome.exits(0).says(&[]);
            let facts = Facts::parse(&outcome.stdout);
            assert_eq!(facts.arguments()[1..], shown, "{outcome:#?}");
        }
    }
}

#[test]
fn names_of_any_bytes_and_of_the_longest_length_are_found() {
    let sandbox = Sandbox::new("mig4");
    let longest = "n".repeat(255 - "CUDAWRAP_".len());
    #[rustfmt::skip]
    let names = [
        "pmemd.cuda", "my app", "-x", "\u{e9}t\u{e9}", "getgpu", "CUDAWRAP_", "CUDAWRAP_a",
        &longest,
    ];
    for name in names {
        let link = wrap(&sandbox, &format!("work/{}", name.len()), name, "probe");
        let hidden = link.with_file_name(format!("CUDAWRAP_{name}"));
        ran(&run(&sandbox, &link), &hidden);
    }
    let [raw, hidden] = [&b"raw\xff"[..], b"CUDAWRAP_raw\xff"]
        .map(|name| sandbox.path("work").join(OsStr::from_bytes(name)));
    put(&sandbox, &hidden, "probe");
    symlink(sandbox.path("bin/cudawrap"), &raw).unwrap();
    run(&sandbox, &raw).exits(0).says(&[]);
}

/// The first of two entries counts, as with getenv(3), and the program finds no other.
#[test]
fn a_variable_that_stands_twice_is_passed_on_once() {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "work", "app", "probe");
    let [_, first, second, _] = &sandbox.uuids()[..] else {
        panic!("four devices")
    };
    for program in ["@/work/app", "@/bin/cudawrap -- @/bin/probe"] {
        let again = format!("launch --again CUDA_VISIBLE_DEVICES={second}");
        let launch = sandbox.words(&format!("{again} {program}"));
        let outcome = launch.visible(first).run();
        let lines = outcome.exits(0).stdout.lines();
        let named = lines.filter(|line| line.contains("env CUDA_VISIBLE_DEVICES"));
        let line = format!("env CUDA_VISIBLE_DEVICES {first}");
        assert!(named.eq([line]), "{outcome:#?}");
    }
}

/// Like any program's line to a pipe that nobody reads any more, but without the end of
/// the program that is to run.
#[test]
fn a_line_to_a_closed_pipe_ends_no_program() {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "work", "app", "probe");
    let uuid = &sandbox.uuids()[1];
    let said = sandbox.leased().visible(uuid).spawn();
    sandbox.until_running(1);
    let closed = || {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        writer
    };
    let with = |line: &str| sandbox.words(line).visible(uuid);
    let direct = with("probe").stderr(closed()).run();
    let wrapped = with("@/work/app").stderr(closed()).run();
    with("@/work/app").run().exits(0).mentions("in use by");
    let signals = |outcome: &harness::Outcome| -> Vec<String> {
        let lines = outcome.exits(0).stdout.lines();
        let kept = lines.filter(|line| line.starts_with("Sig") || line.starts_with("Shd"));
        kept.map(str::to_owned).collect()
    };
    assert_eq!(signals(&wrapped), signals(&direct));
    assert!(signals(&wrapped).len() >= 4, "{wrapped:#?}");
    said.signal(harness::Signal::SIGKILL);
    let refused = sandbox.words("cudawrap --nonsense").stderr(closed()).run();
    refused.exits(125);
}
