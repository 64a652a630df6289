//! The built programs, found beside the running test and linked into a sandbox's own
//! `bin`, where every user can run them. Cargo does not build another package's programs
//! for a test, so a missing one ends in a line that says what to do.

use std::fs;
use std::path::{Path, PathBuf};

/// Every program of the workspace that tests start.
#[rustfmt::skip]
const NAMES: [&str; 8] = [
    "getgpu", "cudawrap", "create-cudawrap", "sim-cuda", "probe", "launch", "mps-control", "cuda",
];
/// Every library, and what it is called below a sandbox's `lib`.
const LIBRARIES: [(&str, &str); 2] = [
    ("libcudawrap.so", "getgpu/libcudawrap.so"),
    ("libsim_cuda.so", "libcuda.so.1"),
];

/// Puts all programs into `bin`, and the libraries into `lib`, as in a prefix.
pub fn link_into(bin: &Path, lib: &Path) {
    let built = directory();
    fs::create_dir(lib.join("getgpu")).expect("a directory of the sandbox");
    let programs = NAMES.map(|name| (built.join(name), bin.join(name)));
    let libraries = LIBRARIES.map(|(name, to)| (built.join(name), lib.join(to)));
    for (from, to) in programs.into_iter().chain(libraries) {
        assert!(
            from.is_file(),
            "{} is missing: run cargo build --workspace first",
            from.display()
        );
        // A link needs no open file for writing, which a process forked at that moment
        // would keep (ETXTBSY).
        if fs::hard_link(&from, &to).is_err() {
            copy_program(&from, &to);
        }
    }
}

/// Copies a program. Another process does that: what a test beside this one forks meanwhile would
/// keep a copy open for writing that this process makes, and then it cannot be executed (ETXTBSY).
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let copied = std::process::Command::new("cp").args([from, to]).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "cannot copy {} to {}",
        from.display(),
        to.display()
    );
}

/// target/debug or target/release: the test is in `deps` below it.
fn directory() -> PathBuf {
    let test = std::env::current_exe().expect("path of this test");
    let parent = test.parent().expect("its directory");
    let above = if parent.ends_with("deps") {
        parent.parent()
    } else {
        Some(parent)
    };
    above.expect("cargo's directory").to_owned()
}
