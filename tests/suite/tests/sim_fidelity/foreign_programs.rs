//! Other people's readers of NVML and NVIDIA's headers meet ours: nvidia-ml-py, nvitop,
//! nvisel and gpustat agree with `getgpu --list --json` about the simulated nodes. What
//! `.ci/run` has not installed is reported as SKIPPED.

use std::path::{Path, PathBuf};

use getgpu_tests::on_target;
use harness::{Command, Running, Sandbox, skip};

/// The Python that `.ci/run` installs other people's readers for.
fn readers() -> Option<PathBuf> {
    let folder = on_target("tools/python/bin");
    let missing = ["python", "nvitop", "nvisel", "gpustat"]
        .into_iter()
        .find(|name| !folder.join(name).exists());
    if let Some(name) = missing {
        skip::say(&format!(
            "{name} is not installed below target/tools/python (.ci/run does that)"
        ));
        return None;
    }
    Some(folder.join("python"))
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sim/outsiders")
        .join(name)
}

/// Holds getgpu's listing against every reader; `with` puts in what else the programs need.
#[track_caller]
fn agree(sandbox: &Sandbox, python: &Path, words: &[&str], with: impl Fn(Command) -> Command) {
    let listing = with(sandbox.words("getgpu --list --json")).run();
    let file = sandbox.file("work/listing", &listing.exits(0).stdout, 0o644);
    let script = beside("agree.py");
    let command = sandbox
        .command(python)
        .args([script.as_os_str(), file.as_os_str()]);
    let outcome = with(command.args(words)).run();
    println!("{}", outcome.exits(0).stdout);
}

/// On each device that is used two programs, one of them on the last device too.
fn programs(sandbox: &Sandbox) -> Vec<Running> {
    let uuids = sandbox.uuids();
    let Some(last) = uuids.last() else {
        return Vec::new();
    };
    let mut programs = sandbox.occupy(&uuids[..1], "--memory 700000000 --shared");
    if uuids.len() > 1 {
        programs.extend(sandbox.occupy(&uuids[..1], "--memory 300000000 --shared"));
        programs.extend(sandbox.occupy(std::slice::from_ref(last), "--memory 1000000"));
    }
    programs
}

#[test]
fn other_readers_of_nvml_agree_with_the_listing_on_each_device() {
    let Some(python) = readers() else {
        return;
    };
    let mut devices = 0;
    for node in sim_node::builtin_names() {
        let sandbox = Sandbox::new(node);
        let _programs = programs(&sandbox);
        println!("{node}:");
        agree(&sandbox, &python, &[], |command| command);
        devices += sandbox.uuids().len();
    }
    assert!(devices > 200, "{devices}");
}

/// NVIDIA's own mock of NVML, or any other library, in the directory that NVML_MOCK names;
/// MOCK_NVML_CONFIG is passed on to it.
#[test]
fn other_readers_agree_with_the_listing_on_nvidias_mock() {
    let Some(folder) = std::env::var_os("NVML_MOCK") else {
        skip::say("NVML_MOCK names no directory with NVIDIA's mock of libnvidia-ml.so.1");
        return;
    };
    let Some(python) = readers() else {
        return;
    };
    let smi = skip::tool("nvidia-smi").is_some();
    if !smi {
        skip::say("nvidia-smi is not installed: it is not compared");
    }
    let sandbox = Sandbox::new("none");
    let config = std::env::var_os("MOCK_NVML_CONFIG");
    let words: &[&str] = if smi { &["nvidia-smi"] } else { &[] };
    agree(&sandbox, &python, words, |command| {
        let command = command.env("LD_LIBRARY_PATH", &folder);
        match &config {
            Some(config) => command.env("MOCK_NVML_CONFIG", config),
            None => command,
        }
    });
}

/// Runs a script of tests/sim/outsiders; its output, or none if it skips.
fn script(name: &str, arguments: &[&Path]) -> Option<String> {
    let output = std::process::Command::new("sh")
        .arg(beside(name))
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Some(text),
        Some(77) => {
            skip::say(text.trim().trim_start_matches("SKIPPED: "));
            None
        }
        _ => panic!(
            "{name}: {:?}\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// Every structure that the simulated library fills lies as in nvml.h of CUDA 12.9 and of
/// the newest one, and each node is enumerated as its file says.
#[test]
fn headers_and_bindings_agree_with_the_simulated_node() {
    let Some(python) = readers() else {
        return;
    };
    let folder = on_target("outsiders/check");
    if let Some(text) = script("check.sh", &[&folder, &python]) {
        println!("{text}");
    }
}
