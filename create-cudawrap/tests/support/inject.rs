//! The command under strace, which kills it or fails one of its system calls; and what
//! must hold whatever happened. The calls are counted in a plain run first, since strace
//! counts each kind of call by itself.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use super::{Sandbox, said};

/// The calls that change something, or decide whether something is changed.
pub(crate) const CHANGING: &[&str] = &[
    "flock",
    "symlinkat",
    "linkat",
    "renameat",
    "unlinkat",
    "fsync",
    "rename",
    "mkdir",
    "write",
];
/// What a file system, a quota, a limit or a signal can answer.
pub(crate) const ERRORS: &[&str] = &[
    "EIO", "ENOSPC", "EPERM", "EINTR", "EMFILE", "ENOMEM", "EAGAIN", "ENOLCK", "EDQUOT", "EROFS",
];
/// The first call of our own code: all before are the loader's and the runtime's.
const FIRST: &str = "config.toml";

/// A state that a path is in, and what is done there.
pub(crate) struct Start {
    pub(crate) name: &'static str,
    pub(crate) files: fn(&Sandbox),
    pub(crate) args: &'static [&'static str],
    /// The name that the program `one` has at first.
    pub(crate) program: &'static str,
    /// The names in `app` when it is done.
    pub(crate) end: &'static str,
    /// The same when it is undone then.
    pub(crate) undone: &'static str,
}

pub(crate) const STARTS: &[Start] = &[
    Start {
        name: "wrap",
        files: |s| s.script("app/x", "one"),
        args: &["x"],
        program: "app/x",
        end: "CUDAWRAP_x x",
        undone: "x",
    },
    Start {
        name: "undo",
        files: |s| {
            s.script("app/CUDAWRAP_x", "one");
            s.link(s.path("bin/cudawrap"), "app/x");
        },
        args: &["--undo", "x"],
        program: "app/CUDAWRAP_x",
        end: "x",
        undone: "x",
    },
    Start {
        name: "repair",
        files: |s| (s.script("app/CUDAWRAP_x", "old"), s.script("app/x", "one")).1,
        args: &["--repair", "x"],
        program: "app/x",
        end: "CUDAWRAP_x x x.replaced-1",
        undone: "x x.replaced-1",
    },
    Start {
        name: "copied",
        files: |s| {
            s.script("app/CUDAWRAP_x", "one");
            // Stripped, since the small file systems have no room for more.
            s.run_sh("strip -o app/x bin/cudawrap");
        },
        args: &["--repair", "x"],
        program: "app/CUDAWRAP_x",
        end: "CUDAWRAP_x x",
        undone: "x",
    },
    Start {
        name: "adopt",
        files: |s| {
            s.program(
                "bin/migtools_wrapper",
                "#!/bin/sh\nexec \"${0%/*}/MIGTOOLS_${0##*/}\" \"$@\"\n",
            );
            s.script("app/MIGTOOLS_x", "one");
            s.link("../bin/migtools_wrapper", "app/x");
        },
        args: &["x"],
        program: "app/MIGTOOLS_x",
        end: "CUDAWRAP_x x",
        undone: "x",
    },
];

/// One system call of the plain run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Its number among its like.
    pub(crate) number: usize,
}

impl Call {
    pub(crate) fn changes(&self) -> bool {
        CHANGING.contains(&self.name.as_str())
    }
}

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Killed before it is done.
    Killed,
    /// It fails with this.
    Fails(&'static str),
}

fn strace(sandbox: &Sandbox, start: &Start, options: &[String]) -> Command {
    let strace = harness::skip::tool("strace").unwrap();
    let mut command = sandbox.prepared(Command::new(strace));
    // Package managers are not what is tried here, and are slow.
    command
        .env("PATH", "/nonexistent")
        .args(["-f", "-qq", "-o"])
        .arg(sandbox.path("state/log"));
    command
        .args(options)
        .arg(sandbox.path("bin/create-cudawrap"))
        .args(start.args);
    command
}

/// Runs the command with more options for strace.
pub(crate) fn run(sandbox: &Sandbox, start: &Start, options: &[String]) -> Output {
    strace(sandbox, start, options).output().unwrap()
}

/// Each call after start-up of a plain run, which is made here; the files of `start` are
/// in place.
pub(crate) fn calls(sandbox: &Sandbox, start: &Start) -> Vec<Call> {
    let output = run(sandbox, start, &[]);
    assert!(
        output.status.success(),
        "{}: {}",
        start.name,
        said(output).err
    );
    let log = std::fs::read_to_string(sandbox.path("state/log")).unwrap();
    let mut all: Vec<(Call, bool)> = Vec::new();
    let mut started = false;
    for line in log.lines() {
        started |= line.contains(FIRST);
        let call = line
            .split_whitespace()
            .nth(1)
            .and_then(|rest| rest.split_once('('));
        // What ends or begins the process has no error to give.
        if let Some((name, _)) = call.filter(|(name, _)| !["exit_group", "execve"].contains(name)) {
            let number = all.iter().filter(|(other, _)| other.name == name).count() + 1;
            all.push((
                Call {
                    name: name.to_owned(),
                    number,
                },
                started,
            ));
        }
    }
    let ours = all.into_iter().filter(|(_, ours)| *ours);
    ours.map(|(call, _)| call).collect()
}

/// The program at `name`: its inode and its text.
pub(crate) fn program(sandbox: &Sandbox, name: &str) -> (u64, Vec<u8>) {
    let path = sandbox.path(name);
    (
        path.symlink_metadata().unwrap().ino(),
        std::fs::read(path).unwrap(),
    )
}

/// Does what `start` does with `fate` at `call`. Whatever comes of it: the path runs, no
/// success is claimed that is none, the same command once more completes, and undone the
/// very same file is back.
pub(crate) fn suffer(sandbox: &Sandbox, start: &Start, call: &Call, fate: Fate, on: &str) {
    let what = format!(
        "{on}: {}, {} no. {}: {fate:?}",
        start.name, call.name, call.number
    );
    let before = program(sandbox, start.program);
    // Stopped by seccomp at the calls in question alone it is quicker, but strace can
    // send no signal then.
    let (quick, fault) = match fate {
        Fate::Killed => (None, "signal=KILL".to_owned()),
        Fate::Fails(errno) => (Some("--seccomp-bpf".to_owned()), format!("error={errno}")),
    };
    let inject = format!("-einject={}:{fault}:when={}", call.name, call.number);
    let trace = format!("-etrace={}", call.name);
    let options: Vec<String> = quick.into_iter().chain([trace, inject]).collect();
    let output = run(sandbox, start, &options);
    let status = output.status;
    let log = std::fs::read_to_string(sandbox.path("state/log")).unwrap();
    let met = log
        .lines()
        .any(|line| line.contains("(INJECTED)") || line.contains("killed by SIGKILL"));
    assert!(met, "{what}: nothing was injected: {log}");
    let said = said(output);
    let killed = status.signal() == Some(9);
    // Rust's runtime aborts when there is no memory to be had.
    let aborted = status.signal() == Some(6) && ["brk", "mmap"].contains(&call.name.as_str());
    assert_eq!(
        killed,
        fate == Fate::Killed,
        "{what}: {status} {}",
        said.err
    );
    assert!(
        killed || aborted || matches!(status.code(), Some(0..=2)),
        "{what}: {status} {}",
        said.err
    );
    assert!(!said.err.contains("panicked"), "{what}: {}", said.err);
    let names = sandbox.names("app").join(" ");
    assert!(
        status.code() != Some(0) || names == start.end,
        "{what}: ended with 0, and there is {names}"
    );
    complete(sandbox, start, &what);
    if !start.args.contains(&"--undo") {
        let undone = again(sandbox, &["--undo", "x"]);
        assert_eq!(
            (undone.0, sandbox.names("app").join(" ")),
            (0, start.undone.to_owned()),
            "{what}: undo: {}",
            undone.1
        );
    }
    assert_eq!(
        program(sandbox, "app/x"),
        before,
        "{what}: another file than before"
    );
}

/// The path runs, and the command once more gets to the end.
pub(crate) fn complete(sandbox: &Sandbox, start: &Start, what: &str) {
    assert_eq!(
        sandbox.output_of("app/x"),
        "one a b",
        "{what}: does not run: {:?}",
        sandbox.names("app")
    );
    let (code, error) = again(sandbox, start.args);
    assert_eq!(code, 0, "{what}: again: {error}");
    assert_eq!(sandbox.output_of("app/x"), "one a b", "{what}: again");
    assert_eq!(
        sandbox.names("app").join(" "),
        start.end,
        "{what}: left over"
    );
}

/// One more run, not traced: its status and what it said.
pub(crate) fn again(sandbox: &Sandbox, args: &[&str]) -> (i32, String) {
    let output = said(
        sandbox
            .command()
            .env("PATH", "/nonexistent")
            .args(args)
            .output()
            .unwrap(),
    );
    (output.code, output.err)
}
