//! Two processes wrap and undo one path again and again while a third starts it 2,000 times: no start may fail.
//! This program is all of it: by the name it was installed under it is the test, the cudawrap, or the wrapped program.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is a failed test, and SKIPPED: lines are read")]

mod support;

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use support::Sandbox;

const STARTS: u32 = 2000;
const RAN: i32 = 42;

fn main() {
    let exe = std::env::current_exe().unwrap_or_default();
    match exe.file_name().and_then(OsStr::to_str) {
        Some("cudawrap") => stand_in(),
        Some("x" | "CUDAWRAP_x") => exit(RAN),
        _ => toggle(),
    }
}

/// As cudawrap finds its program: beside the link, else at the path itself when that is no link any more; then once more.
fn stand_in() -> ! {
    let link = std::env::args_os().next().unwrap_or_default();
    let link = Path::new(&link);
    for _ in 0..1000 {
        let error = Command::new(link.with_file_name("CUDAWRAP_x")).arg0(link).exec();
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
        sandbox.run_sh(&format!("rm bin/cudawrap && cp '{0}' bin/cudawrap", exe.display()));
    }
    let over = AtomicBool::new(false);
    let toggles = AtomicU32::new(0);
    let failed = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for args in [&["x"][..], &["--undo", "x"]] {
                        // Package managers are not what is tried here, and are slow.
                        let output = sandbox.command().env("PATH", "/nonexistent").args(args).output().unwrap();
                        let said = support::said(output);
                        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
                        toggles.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let statuses = (0..STARTS).map(|_| Command::new(sandbox.path("app/x")).status().map(|status| status.code()));
        let failed: Vec<_> = statuses.filter(|status| !matches!(status, Ok(Some(RAN)))).collect();
        over.store(true, Ordering::Relaxed);
        failed
    });
    let toggles = toggles.into_inner();
    assert!(failed.is_empty(), "{} of {STARTS} starts failed: {:?}", failed.len(), &failed[..failed.len().min(5)]);
    assert!(toggles > 50, "only {toggles} toggles");
    sandbox.ok(&["--undo", "x"]);
    assert_eq!(sandbox.names("app"), ["x"]);
    println!("{STARTS} starts during {toggles} toggles: all ran");
}
