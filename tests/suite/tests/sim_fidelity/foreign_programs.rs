//! NVIDIA's header, Python bindings, nvisel and gpustat read the simulated node, and our
//! programs meet NVIDIA's real library without a driver. Both are fetched from package
//! registries; without one a test says SKIPPED.

use std::path::{Path, PathBuf};

use harness::{Sandbox, skip};

/// Where fetched packages are kept between runs.
fn kept(name: &str) -> PathBuf {
    let target = std::env::current_exe()
        .unwrap()
        .ancestors()
        .nth(3)
        .unwrap()
        .to_owned();
    target.join("outsiders").join(name)
}

/// Runs a script of tests/sim/outsiders; its output, or none if it skips.
fn script(name: &str, folder: &Path) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sim/outsiders")
        .join(name);
    let output = std::process::Command::new("sh")
        .arg(path)
        .arg(folder)
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

#[test]
fn header_bindings_nvisel_and_gpustat_agree_with_the_simulated_node() {
    if let Some(text) = script("check.sh", &kept("check")) {
        println!("{text}");
    }
}

#[test]
fn the_real_library_without_a_driver_is_status_3_and_one_line() {
    if Path::new("/proc/driver/nvidia/version").exists() {
        skip::say("this machine has a driver");
        return;
    }
    let Some(text) = script("real-library.sh", &kept("library")) else {
        return;
    };
    let library = PathBuf::from(text.lines().last().unwrap());
    let sandbox = Sandbox::new("none");
    std::fs::remove_file(sandbox.path("lib/libnvidia-ml.so.1")).unwrap();
    let directory = library.parent().unwrap();
    for arguments in [&["--no-reserve"][..], &["--list"], &["0"]] {
        let outcome = sandbox
            .getgpu(arguments)
            .env("LD_LIBRARY_PATH", directory)
            .run();
        outcome
            .exits(3)
            .prints("")
            .says(&["getgpu: no NVIDIA driver on this node"]);
    }
    let outcome = sandbox
        .command("cudawrap")
        .args(["--", "true"])
        .env("LD_LIBRARY_PATH", directory)
        .run();
    outcome
        .exits(125)
        .says(&["cudawrap: no NVIDIA driver on this node"]);
    sandbox.set_settings(&format!("library = \"{}\"\n", library.display()));
    sandbox
        .getgpu(["--count-free"])
        .run()
        .exits(3)
        .says(&["getgpu: no NVIDIA driver on this node"]);
}
