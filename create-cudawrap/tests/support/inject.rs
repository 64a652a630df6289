//! The command killed or failed at one of its system calls, and what must hold whatever
//! happened. The calls are counted in a plain run first.

use std::os::unix::fs::MetadataExt;

use inject::{At, Blow, Call, Point, calls};
use nix::errno::Errno;
use nix::libc;

use super::Sandbox;

/// The calls that change something, or decide whether something is changed.
#[rustfmt::skip]
const CHANGING: [i64; 10] = [
    libc::SYS_flock, libc::SYS_symlinkat, libc::SYS_linkat, libc::SYS_renameat, libc::SYS_renameat2,
    libc::SYS_unlinkat, libc::SYS_fsync, calls::RENAME, calls::MKDIR, libc::SYS_write,
];

/// What a file system, a quota, a limit or a signal can answer.
#[rustfmt::skip]
pub(crate) const ERRORS: [Errno; 10] = [
    Errno::EIO, Errno::ENOSPC, Errno::EPERM, Errno::EINTR, Errno::EMFILE,
    Errno::ENOMEM, Errno::EAGAIN, Errno::ENOLCK, Errno::EDQUOT, Errno::EROFS,
];

/// The wrapper of an older tool, whose wraps are taken over.
const MIGTOOLS: &str = "#!/bin/sh\nexec \"${0%/*}/MIGTOOLS_${0##*/}\" \"$@\"\n";

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

#[rustfmt::skip]
pub(crate) const STARTS: &[Start] = &[
    Start { name: "wrap", files: |s| s.script("app/x", "one"), args: &["x"], program: "app/x",
        end: "CUDAWRAP_x x", undone: "x" },
    Start { name: "undo",
        files: |s| (s.script("app/CUDAWRAP_x", "one"), s.link(s.path("bin/cudawrap"), "app/x")).1,
        args: &["--undo", "x"], program: "app/CUDAWRAP_x", end: "x", undone: "x" },
    Start { name: "repair",
        files: |s| (s.script("app/CUDAWRAP_x", "old"), s.script("app/x", "one")).1,
        args: &["--repair", "x"], program: "app/x", end: "CUDAWRAP_x CUDAWRAP_x.replaced-1 x",
        undone: "CUDAWRAP_x.replaced-1 x" },
    // Stripped, since the small file systems have no room for more.
    Start { name: "copied",
        files: |s| (s.script("app/CUDAWRAP_x", "one"), s.run_sh("strip -o app/x bin/cudawrap")).1,
        args: &["--repair", "x"], program: "app/CUDAWRAP_x", end: "CUDAWRAP_x x", undone: "x" },
    Start { name: "adopt",
        files: |s| (s.program("bin/migtools_wrapper", MIGTOOLS), s.script("app/MIGTOOLS_x", "one"),
            s.link("../bin/migtools_wrapper", "app/x")).2,
        args: &["x"], program: "app/MIGTOOLS_x", end: "CUDAWRAP_x x", undone: "x" },
];

/// Whether a call changes something.
pub(crate) fn changes(call: &Call) -> bool {
    CHANGING.contains(&call.number)
}

/// Whether this machine cannot do it; then it has been said.
pub(crate) fn lacks() -> bool {
    let follows = inject::can_follow();
    if !follows {
        harness::skip::say("system calls cannot be followed here");
    }
    !follows
}

/// Runs the command with this blow: its status, or minus its signal, its calls, what it
/// struck and what was said.
pub(crate) fn run(
    sandbox: &Sandbox,
    start: &Start,
    blow: Option<(Point, Blow)>,
) -> (inject::Story, String) {
    let mut command = sandbox.command();
    let log = sandbox.path("state/log");
    let file = std::fs::File::create(&log).unwrap();
    // Package managers are not what is tried here, and are slow.
    command.env("PATH", "/nonexistent").args(start.args);
    command.stdout(std::process::Stdio::null()).stderr(file);
    let story = inject::follow(
        &mut command,
        blow.map(|(point, blow)| (At::Point(point), blow)),
        |_| false,
        |_| (),
    );
    (story, std::fs::read_to_string(log).unwrap())
}

/// Each call after start-up of a plain run, which is made here; the files of `start` are
/// in place.
pub(crate) fn calls(sandbox: &Sandbox, start: &Start) -> Vec<Call> {
    let (story, error) = run(sandbox, start, None);
    assert_eq!(story.status, 0, "{}: {error}", start.name);
    // The first call of our own code looks for settings; the loader has another one.
    let loading = |call: &&Call| call.number != libc::SYS_statx;
    let ours = story.calls.iter().skip_while(loading);
    // What ends or begins the process has no error to give.
    let ends = [libc::SYS_exit_group, libc::SYS_execve];
    ours.filter(|call| !ends.contains(&call.number))
        .cloned()
        .collect()
}

/// The program at `name`: its inode and its text.
pub(crate) fn program(sandbox: &Sandbox, name: &str) -> (u64, Vec<u8>) {
    let path = sandbox.path(name);
    let inode = path.symlink_metadata().unwrap().ino();
    (inode, std::fs::read(path).unwrap())
}

/// Does what `start` does with `blow` at `call`. Whatever comes of it: the path runs, no
/// success is claimed that is none, the same command once more completes, and undone the
/// very same file is back.
pub(crate) fn suffer(sandbox: &Sandbox, start: &Start, call: &Call, blow: Blow, on: &str) {
    let what = format!("{on}: {}, {call:?}: {blow:?}", start.name);
    let before = program(sandbox, start.program);
    let (story, error) = run(sandbox, start, Some((call.point, blow)));
    let struck = story.struck.map(|struck| struck.number);
    assert_eq!(struck, Some(call.number), "{what}: nothing was injected");
    let killed = story.status == -libc::SIGKILL;
    // Rust's runtime aborts when there is no memory to be had.
    let memory = [libc::SYS_brk, libc::SYS_mmap].contains(&call.number);
    let aborted = memory && story.status == -libc::SIGABRT;
    let ended = format!("{what}: {} {error}", story.status);
    assert_eq!(killed, blow == Blow::Kill, "{ended}");
    assert!(
        killed || aborted || matches!(story.status, 0..=2),
        "{ended}"
    );
    assert!(!error.contains("panicked"), "{ended}");
    let names = sandbox.names("app").join(" ");
    assert!(
        story.status != 0 || names == start.end,
        "{ended}: there is {names}"
    );
    complete(sandbox, start, &what);
    if !start.args.contains(&"--undo") {
        let (code, error) = again(sandbox, &["--undo", "x"]);
        assert_eq!(code, 0, "{what}: undo: {error}");
        assert_eq!(sandbox.names("app").join(" "), start.undone, "{what}: undo");
    }
    assert_eq!(program(sandbox, "app/x"), before, "{what}: another file");
}

/// The path runs, and the command once more gets to the end.
pub(crate) fn complete(sandbox: &Sandbox, start: &Start, what: &str) {
    let names = || sandbox.names("app").join(" ");
    let runs = || sandbox.output_of("app/x") == "one a b";
    assert!(runs(), "{what}: does not run: {}", names());
    let (code, error) = again(sandbox, start.args);
    assert_eq!(code, 0, "{what}: again: {error}");
    assert!(runs(), "{what}: again");
    assert_eq!(names(), start.end, "{what}: left over");
}

/// One more run, not traced: its status and what it said.
pub(crate) fn again(sandbox: &Sandbox, args: &[&str]) -> (i32, String) {
    let output = sandbox.with("PATH", "/nonexistent", args);
    (output.code().unwrap_or(-1), output.stderr)
}
