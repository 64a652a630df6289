//! Two processes wrap, undo and repair one path again and again, a package manager
//! replaces what lies there, and a third starts it all the time: no start may fail, and
//! the program that was installed last is the one that is there in the end. This program
//! is all of it: by the name it was installed under it is the test, the cudawrap, or the
//! wrapped program.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is a failed test, and the figures are read"
)]

mod support;

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

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
        Some("cudawrap") => stand_in(),
        Some(name) if name.starts_with("toggle") => toggle(),
        // Whatever name it has by now, or had.
        _ => exit(RAN),
    }
}

/// As cudawrap finds its program: beside the link, else at the path itself when that is
/// no link any more; then once more.
fn stand_in() -> ! {
    let link = std::env::args_os().next().unwrap_or_default();
    let link = Path::new(&link);
    for _ in 0..1000 {
        let error = Command::new(link.with_file_name("CUDAWRAP_x"))
            .arg0(link)
            .exec();
        if error.kind() != std::io::ErrorKind::NotFound {
            exit(97);
        }
        if !link.is_symlink() {
            let _ = Command::new(link).exec();
        }
    }
    exit(98)
}

fn toggle() {
    let sandbox = Sandbox::new();
    let exe = std::env::current_exe().unwrap();
    sandbox.run_sh(&format!("cp '{0}' app/x", exe.display()));
    if std::env::var_os("CUDAWRAP_FOR_TESTS").is_none() {
        sandbox.run_sh(&format!(
            "rm bin/cudawrap && cp '{0}' bin/cudawrap",
            exe.display()
        ));
    }
    for upgrades in [false, true] {
        race(&sandbox, &exe, upgrades);
    }
}

fn race(sandbox: &Sandbox, exe: &Path, upgrades: bool) {
    let over = AtomicBool::new(false);
    let (toggles, upgraded) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let newest = AtomicU64::new(sandbox.identity("app/x").1);
    let app = sandbox.path("app/x");
    let start = || {
        // The real cudawrap shall find the program, not a device.
        let status = Command::new(&app).env("CUDAWRAP_DISABLE", "1").status();
        status.map(|status| status.code())
    };
    let starter = || {
        (0..starts())
            .map(|_| start())
            .filter(|s| !matches!(s, Ok(Some(RAN))))
            .collect::<Vec<_>>()
    };
    let failed: Vec<_> = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for args in [&["x"][..], &["--undo", "x"], &["--repair", "x"]] {
                        // Package managers are not what is tried here, and are slow.
                        let output = sandbox
                            .command()
                            .env("PATH", "/nonexistent")
                            .args(args)
                            .output()
                            .unwrap();
                        let said = support::said(output);
                        // An upgrade gives reasons to refuse; without one there is none.
                        assert!(
                            said.code == 0 || (upgrades && said.code == 1),
                            "{args:?}: {}",
                            said.err
                        );
                        toggles.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        if upgrades {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // As dpkg and rpm do it, and as they do it they know nothing of our
                    // lock.
                    sandbox.run_sh(&format!(
                        "cp '{}' links/new && chown --reference=app links/new",
                        exe.display()
                    ));
                    let new = std::fs::File::open(sandbox.path("links/new")).unwrap();
                    newest.store(new.metadata().unwrap().ino(), Ordering::Relaxed);
                    std::fs::rename(sandbox.path("links/new"), sandbox.path("app/x")).unwrap();
                    let goal = toggles.load(Ordering::Relaxed) + 4;
                    harness::wait::until("it is wrapped and undone", || {
                        over.load(Ordering::Relaxed) || toggles.load(Ordering::Relaxed) >= goal
                    });
                    assert_ne!(
                        new.metadata().unwrap().nlink(),
                        0,
                        "a newer program was lost"
                    );
                    upgraded.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let other = scope.spawn(starter);
        let failed = starter().into_iter().chain(other.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        failed
    });
    let (toggles, upgraded) = (toggles.into_inner(), upgraded.into_inner());
    let total = 2 * starts();
    assert!(
        failed.is_empty(),
        "{} of {total} starts failed: {:?}",
        failed.len(),
        &failed[..failed.len().min(5)]
    );
    assert!(
        toggles > 50 && (upgraded > 10 || !upgrades),
        "only {toggles} toggles, {upgraded} upgrades"
    );
    sandbox.ok(&["--repair", "x"]);
    sandbox.ok(&["--undo", "x"]);
    assert_eq!(sandbox.names("app"), ["x"]);
    assert_eq!(
        sandbox.identity("app/x").1,
        newest.into_inner(),
        "the program that was installed last is lost"
    );
    println!(
        "row 9: {} starts during {} toggles and {upgraded} upgrades: all ran",
        harness::thousands(total),
        harness::thousands(toggles)
    );
}
