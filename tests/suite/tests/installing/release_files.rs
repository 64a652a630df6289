//! `make dist`: what a release publishes is complete, so that the sources and the crates need no
//! registry, and the list of what the programs are made of has a checksum for each crate.

use getgpu_tests::packages::{TOP, run};
use harness::skip::{Need, lacks, say};

#[test]
fn a_release_has_its_sources_crates_list_of_parts_and_sums() {
    if lacks(&["git", "python3", "tar", "sha256sum"].map(Need::Tool)) {
        return;
    }
    let able = |program: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        let outcome = command.args(arguments).current_dir(TOP).output();
        outcome.is_ok_and(|outcome| outcome.status.success())
    };
    if !able("git", &["rev-parse", "HEAD"]) || !able("python3", &["-c", "import tomllib"]) {
        return say("no clone of git's here, or no Python 3.11");
    }
    let room = tempfile::tempdir().unwrap();
    let output = room.path().display().to_string();
    run("packaging/dist.sh", &[&output]);
    let name = format!("getgpu-{}", env!("CARGO_PKG_VERSION"));
    let check = format!(
        "cd {output} && sha256sum --quiet --check SHA256SUMS && tar -xf {name}.tar.gz &&
        tar -xf {name}-vendor.tar.gz && cd {name} &&
        CARGO_HOME={output}/empty cargo metadata --offline --locked --format-version 1"
    );
    run("sh", &["-c", &check]);

    let bill = std::fs::read_to_string(room.path().join(format!("{name}.cdx.json"))).unwrap();
    let bill: serde_json::Value = serde_json::from_str(&bill).unwrap();
    let components = bill["components"].as_array().unwrap();
    let named = |name: &str| components.iter().any(|each| each["name"] == name);
    assert!(named("create-cudawrap") && named("getgpu-lock") && named("libc"));
    assert!(!named("proptest") && !named("sim-nvml") && !named("windows-sys"));
    for each in components.iter().filter(|each| each["purl"].is_string()) {
        let sum = each["hashes"][0]["content"].as_str().unwrap();
        assert!(sum.len() == 64 && each["licenses"].is_array(), "{each}");
    }
}
