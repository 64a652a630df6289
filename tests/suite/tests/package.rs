//! The .deb and the .rpm of the built programs, each through its whole life on a machine of its own (packaging/test/package.sh).
//! Needs root, mounts and the tools that make and install them; nothing of this machine's own dpkg, settings or lock is touched.
#![allow(clippy::unwrap_used, reason = "a panic in a test is a failed test with a place")]

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use harness::skip::{Need, lacks, say};

/// The top of the repository.
const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs a command at the top of the repository; what it said.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(TOP).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    said
}

/// The directory of the built programs.
fn programs() -> String {
    std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().display().to_string()
}

/// Puts the built programs and all else where packages are made of, without what debuggers need.
fn stage(more: &str) {
    run("make", &["--silent", "stage", &format!("programs={}", programs()), more]);
    let staged = ["getgpu", "cudawrap", "create-cudawrap"].map(|name| format!("target/stage/usr/bin/{name}"));
    run("strip", &staged.each_ref().map(String::as_str));
}

/// The whole life of two packages.
fn live(first: &str, second: &str) {
    let said = run("packaging/test/package.sh", &[first, second, &programs()]);
    if let Some(why) = said.lines().find_map(|line| line.strip_prefix("SKIPPED: ")) {
        say(why);
        return;
    }
    assert!(said.contains("package: all as it should be"), "{said}");
}

fn lacks_tools(tools: &[&'static str]) -> bool {
    let needs: Vec<Need> = [Need::Mounts].into_iter().chain(tools.iter().map(|name| Need::Tool(name))).collect();
    lacks(&needs)
}

/// Both tests use target/stage, one after the other.
static STAGE: Mutex<()> = Mutex::new(());

#[test]
fn a_deb_is_installed_used_upgraded_removed_and_purged() {
    if lacks_tools(&["make", "strip", "dpkg", "dpkg-deb", "setpriv", "cargo-deb"]) {
        return;
    }
    let _stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    stage("zshdir=/usr/share/zsh/vendor-completions");
    let room = tempfile::tempdir().unwrap();
    let [first, second] = ["0.1.0-1", "9.9.9-1"].map(|version| {
        let file = room.path().join(format!("{version}.deb")).display().to_string();
        let how = ["deb", "-p", "getgpu", "--no-build", "--no-strip", "--fast", "-q"];
        run("cargo", &[&how[..], &["--deb-version", version, "-o", &file]].concat());
        file
    });
    live(&first, &second);
    if !lacks(&[Need::Tool("lintian")]) {
        let complaints = run("lintian", &["--allow-root", "--fail-on", "error", &first]);
        assert!(!complaints.contains("E: "), "{complaints}");
    }
}

#[test]
fn an_rpm_is_installed_used_upgraded_and_removed() {
    if lacks_tools(&["make", "strip", "rpm", "setpriv", "cargo-generate-rpm"]) {
        return;
    }
    let _stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    stage("zshdir=/usr/share/zsh/site-functions");
    let room = tempfile::tempdir().unwrap();
    let [first, second] = ["0.1.0", "9.9.9"].map(|version| {
        let file = room.path().join(format!("{version}.rpm")).display().to_string();
        let set = format!("version = \"{version}\"");
        let how = ["generate-rpm", "-p", "getgpu", "--payload-compress", "gzip"];
        run("cargo", &[&how[..], &["-s", &set, "-o", &file]].concat());
        file
    });
    live(&first, &second);
}
