//! The command killed, or one system call failed, at each call that changes something: the path still runs, the same
//! command once more completes, and nothing is left over. Needs strace; without it the test says so and passes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is a failed test, and SKIPPED: lines are read")]

mod support;

use std::process::Command;

use support::{Sandbox, said};

const CALLS: &[&str] = &["flock", "symlinkat", "linkat", "renameat", "renameat2", "unlinkat", "fsync", "rename"];
const ERRORS: &[&str] = &["EIO", "ENOSPC", "EPERM", "EINTR"];

struct Start {
    name: &'static str,
    files: fn(&Sandbox),
    args: &'static [&'static str],
    /// The names in `app` when it is done.
    end: &'static str,
}

const STARTS: &[Start] = &[
    Start { name: "wrap", files: |s| s.script("app/x", "one"), args: &["x"], end: "CUDAWRAP_x x" },
    Start {
        name: "undo",
        files: |s| (s.script("app/CUDAWRAP_x", "one"), s.link(s.path("bin/cudawrap"), "app/x")).1,
        args: &["--undo", "x"],
        end: "x",
    },
    Start {
        name: "repair",
        files: |s| (s.script("app/CUDAWRAP_x", "old"), s.script("app/x", "one")).1,
        args: &["--repair", "x"],
        end: "CUDAWRAP_x x",
    },
];

fn strace(sandbox: &Sandbox, start: &Start, options: &[String]) -> Command {
    let mut command = sandbox.prepared(Command::new("strace"));
    command.args(["-f", "-qq", "-EPATH=/nonexistent", "-o"]).arg(sandbox.path("state/log"));
    command.args(options).arg(sandbox.path("bin/create-cudawrap")).args(start.args);
    command
}

/// Each call of the plain run, as (name, number among its like).
fn calls(start: &Start, options: &[String]) -> Vec<(String, usize)> {
    let sandbox = Sandbox::new();
    (start.files)(&sandbox);
    let trace = [&[format!("-etrace={}", CALLS.join(","))], options].concat();
    let output = strace(&sandbox, start, &trace).output().unwrap();
    assert!(output.status.success(), "{}: {}", start.name, said(output).err);
    let log = std::fs::read_to_string(sandbox.path("state/log")).unwrap();
    let mut all: Vec<(String, usize)> = Vec::new();
    for line in log.lines() {
        let call =
            line.split_whitespace().nth(1).and_then(|rest| rest.split_once('(')).map(|(name, _)| name.to_owned());
        if let Some(name) = call.filter(|name| CALLS.contains(&name.as_str())) {
            let number = all.iter().filter(|(other, _)| *other == name).count() + 1;
            all.push((name, number));
        }
    }
    all
}

fn after(start: &Start, sandbox: &Sandbox, what: &str) {
    assert_eq!(sandbox.output_of("app/x"), "one a b", "{what}: does not run: {:?}", sandbox.names("app"));
    let output = sandbox.command().env("PATH", "/nonexistent").args(start.args).output().unwrap();
    let again = said(output);
    assert_eq!(again.code, 0, "{what}: again: {}", again.err);
    assert_eq!(sandbox.output_of("app/x"), "one a b", "{what}: again");
    assert_eq!(sandbox.names("app").join(" "), start.end, "{what}: left over");
}

fn has_strace() -> bool {
    let there = Command::new("strace").arg("-V").output().is_ok();
    if !there {
        println!("SKIPPED: strace is not installed");
    }
    there
}

/// Asked to end in the middle, it first finishes what it has begun.
#[test]
fn terminated_or_interrupted_it_completes_the_plan() {
    if !has_strace() {
        return;
    }
    for start in STARTS {
        for signal in ["TERM", "INT", "HUP"] {
            let sandbox = Sandbox::new();
            (start.files)(&sandbox);
            let inject = format!("-einject=renameat2:signal={signal}:when=1");
            let output = strace(&sandbox, start, &[inject]).output().unwrap();
            assert_eq!(output.status.code(), None, "{} {signal}: not ended by it", start.name);
            assert_eq!(sandbox.names("app").join(" "), start.end, "{} {signal}", start.name);
            after(start, &sandbox, start.name);
        }
    }
}

#[test]
fn killed_or_failed_at_any_call_the_path_runs_and_a_second_run_completes() {
    if !has_strace() {
        return;
    }
    let plain_renames = vec!["-einject=renameat2:error=EINVAL".to_owned()];
    let mut injections = 0;
    for start in STARTS {
        for method in [vec![], plain_renames.clone()] {
            let all = calls(start, &method);
            assert!(all.len() >= 4, "{}: {all:?}", start.name);
            for (call, number) in all.iter().filter(|(call, _)| method.is_empty() || call != "renameat2") {
                let fates =
                    std::iter::once("signal=KILL".to_owned()).chain(ERRORS.iter().map(|e| format!("error={e}")));
                for fate in fates {
                    let what = format!("{} {method:?} {call} {number} {fate}", start.name);
                    let sandbox = Sandbox::new();
                    (start.files)(&sandbox);
                    let inject = format!("-einject={call}:{fate}:when={number}");
                    let output = strace(&sandbox, start, &[&method[..], &[inject]].concat()).output().unwrap();
                    let (code, said) = (output.status.code(), said(output));
                    assert_eq!(code.is_none(), fate == "signal=KILL", "{what}: {code:?} {}", said.err);
                    assert!(matches!(code, None | Some(0 | 1)), "{what}: {code:?} {}", said.err);
                    assert!(!said.err.contains("panicked"), "{what}: {}", said.err);
                    after(start, &sandbox, &what);
                    injections += 1;
                }
            }
        }
    }
    println!("{injections} injections");
    assert!(injections > 200, "{injections}");
}
