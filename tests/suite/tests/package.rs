//! The Debian package from the built programs, through its whole life on a machine of its own (packaging/test/deb.sh).
//! Needs root, mounts, dpkg and cargo-deb; nothing of this machine's own dpkg, settings or lock is touched.
#![allow(clippy::unwrap_used, reason = "a panic in a test is a failed test with a place")]

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// A package of what lies in target/stage.
fn package(to: &Path, version: &str) -> String {
    let file = to.join(format!("{version}.deb")).display().to_string();
    let words =
        ["deb", "-p", "getgpu", "--no-build", "--no-strip", "--fast", "--deb-version", version, "-q", "-o", &file];
    run("cargo", &words);
    file
}

#[test]
fn a_package_is_installed_used_upgraded_removed_and_purged() {
    let tools = ["make", "strip", "dpkg", "dpkg-deb", "cargo-deb", "setpriv"];
    let needs: Vec<Need> = [Need::Mounts].into_iter().chain(tools.map(Need::Tool)).collect();
    if lacks(&needs) {
        return;
    }
    let built: PathBuf = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let programs = built.display().to_string();
    run("make", &["--silent", "stage", &format!("programs={programs}"), "zshdir=/usr/share/zsh/vendor-completions"]);
    run(
        "strip",
        &["target/stage/usr/bin/getgpu", "target/stage/usr/bin/cudawrap", "target/stage/usr/bin/create-cudawrap"],
    );
    let room = tempfile::tempdir().unwrap();
    let (first, second) = (package(room.path(), "0.1.0-1"), package(room.path(), "9.9.9-1"));
    let said = run("packaging/test/deb.sh", &[&first, &second, &programs]);
    if let Some(why) = said.lines().find_map(|line| line.strip_prefix("SKIPPED: ")) {
        say(why);
        return;
    }
    assert!(said.contains("package: all as it should be"), "{said}");
    if !lacks(&[Need::Tool("lintian")]) {
        let complaints = run("lintian", &["--allow-root", "--fail-on", "error", &first]);
        assert!(!complaints.contains("E: "), "{complaints}");
    }
}
