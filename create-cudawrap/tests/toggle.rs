//! Two processes wrap, undo and repair one path again and again, a package manager replaces
//! what lies there, and two others start it all the time. No start of a program may fail;
//! of a script some do, since the kernel starts its interpreter, which opens the path later.
//! This program is the test and, under another name, the wrapped program.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is a failed test, and the figures are read"
)]

mod support;

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use support::Sandbox;

/// Of each two processes that start the path.
fn starts() -> usize {
    harness::size(500, 50_000)
}

/// What the wrapped program ends with.
const RAN: i32 = 42;

fn main() {
    let exe = std::env::current_exe().unwrap_or_default();
    match exe.file_name().and_then(OsStr::to_str) {
        Some(name) if name.starts_with("toggle") => toggle(&exe),
        // Whatever name it has by now, or had.
        _ => exit(RAN),
    }
}

/// What is wrapped, and who else is at work there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Program,
    /// A program that a package manager replaces.
    Upgraded,
    Script,
}

fn toggle(exe: &Path) {
    for kind in [Kind::Program, Kind::Upgraded, Kind::Script] {
        let sandbox = Sandbox::new();
        if kind == Kind::Script {
            sandbox.program("app/x", &format!("#!/bin/sh\nexit {RAN}\n"));
        } else {
            install(&sandbox, exe);
        }
        race(&sandbox, exe, kind);
    }
}

/// As dpkg and rpm do it, which know nothing of our lock. The file that is there now.
fn install(sandbox: &Sandbox, exe: &Path) -> std::fs::File {
    sandbox.run_sh(&format!(
        "cp '{}' links/new && chown --reference=app links/new",
        exe.display()
    ));
    let new = std::fs::File::open(sandbox.path("links/new")).unwrap();
    std::fs::rename(sandbox.path("links/new"), sandbox.path("app/x")).unwrap();
    new
}

/// One process that wraps, undoes and repairs.
fn change(sandbox: &Sandbox, kind: Kind) -> usize {
    let goals = [&["x"][..], &["--undo", "x"], &["--repair", "x"]];
    for args in goals {
        // Package managers are not what is tried here, and are slow.
        let mut command = sandbox.command();
        let said = support::said(command.env("PATH", "/nonexistent").args(args));
        // An upgrade gives reasons to refuse; without one there is none.
        let refused = kind == Kind::Upgraded && said.code() == Some(1);
        assert!(refused || said.code() == Some(0), "{said:#?}");
    }
    goals.len()
}

/// What the starts that failed ended with, and said.
fn starts_of(app: &Path) -> Vec<(Option<i32>, String)> {
    let start = || {
        // cudawrap shall find the program, not a device.
        let mut command = Command::new(app);
        let output = command.env("CUDAWRAP_DISABLE", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let results = (0..starts()).map(|_| start());
    results.filter(|(code, _)| *code != Some(RAN)).collect()
}

fn race(sandbox: &Sandbox, exe: &Path, kind: Kind) {
    let over = AtomicBool::new(false);
    let toggles = AtomicUsize::new(0);
    let (upgrades, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let before = sandbox.identity("app/x");
    let app = sandbox.path("app/x");
    let upgrade = || {
        while !over.load(Ordering::Relaxed) {
            let new = install(sandbox, exe);
            let goal = toggles.load(Ordering::Relaxed) + 4;
            harness::wait::until("it is wrapped and undone", || {
                over.load(Ordering::Relaxed) || toggles.load(Ordering::Relaxed) >= goal
            });
            // One that came in the microseconds between a look and a rename.
            let is_lost = new.metadata().unwrap().nlink() == 0;
            lost.fetch_add(usize::from(is_lost), Ordering::Relaxed);
            upgrades.fetch_add(1, Ordering::Relaxed);
        }
    };
    let failed: Vec<_> = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    toggles.fetch_add(change(sandbox, kind), Ordering::Relaxed);
                }
            });
        }
        if kind == Kind::Upgraded {
            scope.spawn(upgrade);
        }
        let other = scope.spawn(|| starts_of(&app));
        let mut failed = starts_of(&app);
        failed.extend(other.join().unwrap());
        over.store(true, Ordering::Relaxed);
        failed
    });
    let (toggles, upgrades) = (toggles.into_inner(), upgrades.into_inner());
    let total = 2 * starts();
    println!(
        "row 9: {kind:?}: {} of {} starts failed during {} toggles and {upgrades} upgrades, of which {} were lost",
        failed.len(),
        total,
        toggles,
        lost.into_inner(),
    );
    assert!(
        failed.is_empty() || kind == Kind::Script,
        "{kind:?}: {:?}",
        &failed[..failed.len().min(5)]
    );
    assert!(
        toggles > 50 && (upgrades > 5 || kind != Kind::Upgraded),
        "only {toggles} toggles, {upgrades} upgrades"
    );
    if kind != Kind::Upgraded {
        sandbox.ok(&["--undo", "x"]);
        assert_eq!(sandbox.names("app"), ["x"]);
        assert_eq!(sandbox.identity("app/x"), before, "another file");
    }
}
