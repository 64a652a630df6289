//! A library that hangs, crashes, lies or is missing. One sick GPU never stops the others;
//! the faults are tried in the functions that this version calls.

use std::collections::BTreeSet;
use std::time::Duration;

use getgpu_tests::{PLAIN, assert_devices, listing, until_none_is_free};
use harness::{Damage, Outcome, Sandbox, skip};

const TWO_GPUS: &str = "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\ncount = 2\nmig = true\nlayout = '7x1g.5gb'\n";

/// The driver's files in /proc, of which containers see the host's, in a mount namespace
/// of one's own.
const DRIVER: &str = "mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && : >/proc/driver/nvidia/version";

/// A GPU's node in /dev. It is never opened.
const NODES: &str =
    "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && mknod /dev/nvidia0 c 195 0";

/// The functions that a call with these arguments uses.
fn functions(arguments: &[&str]) -> BTreeSet<String> {
    let sandbox = Sandbox::new(TWO_GPUS);
    sandbox.folder().log_calls().unwrap();
    sandbox.getgpu(arguments).run().exits(0);
    let calls = sandbox.folder().calls().unwrap();
    let names: BTreeSet<String> = calls
        .into_iter()
        .map(|call| call.function)
        .filter(|name| name != "attach")
        .collect();
    assert!(names.len() >= 5, "{names:?}");
    names
}

fn rule(function: &str, what: &str) -> String {
    format!("[[rule]]\nfunction = '{function}'\n{what}\n")
}

/// Every function of `arguments`, each in a sandbox of its own where it does `what`; all
/// at once, since they take time.
fn each_function(
    arguments: &[&str],
    settings: &str,
    what: &str,
) -> Vec<(String, Sandbox, Outcome)> {
    let start = |function: String| {
        let sandbox = Sandbox::builder("a100x1").settings(settings).build();
        sandbox.faults(&rule(&function, what));
        let running = sandbox.getgpu(arguments).spawn();
        (function, sandbox, running)
    };
    let started: Vec<_> = functions(arguments).into_iter().map(start).collect();
    started
        .into_iter()
        .map(|(function, sandbox, running)| (function, sandbox, running.wait()))
        .collect()
}

fn nothing_left(sandbox: &Sandbox) {
    sandbox.assert_clean(Duration::from_millis(200));
    harness::wait::until("no process is left", || sandbox.processes().is_empty());
}

#[test]
fn a_library_that_hangs_is_given_up_in_time() {
    for arguments in [&[][..], &["--list"], &["--count-free"], &["0"]] {
        for what in ["does = 'hang'", "does = 'stop'"] {
            for (function, sandbox, outcome) in each_function(arguments, "nvml_timeout = 1", what) {
                outcome.refuses("getgpu", 3, "NVML did not answer within 1 s");
                outcome.mentions("getgpu: hint: ");
                let late = Duration::from_millis(1500);
                assert!(
                    outcome.elapsed < late,
                    "{function} {what}: {:?}",
                    outcome.elapsed
                );
                nothing_left(&sandbox);
            }
        }
    }
}

#[test]
fn a_library_that_crashes_is_said_to_have_failed() {
    for arguments in [&[][..], &["--list"]] {
        for (_, sandbox, outcome) in each_function(arguments, "", "does = 'abort'") {
            outcome.refuses("getgpu", 3, "getgpu: the process that asks NVML failed");
            nothing_left(&sandbox);
        }
    }
}

#[test]
fn one_sick_gpu_leaves_the_others_in_use() {
    // nvmlInit, nvmlShutdown and the count are about no GPU. Without its name, and so
    // without its profile, a device can be judged all the same.
    let about = |name: &String| {
        name.starts_with("nvmlDevice")
            && !name.starts_with("nvmlDeviceGetCount")
            && name != "nvmlDeviceGetName"
    };
    for function in functions(&[]).into_iter().filter(about) {
        let sandbox = Sandbox::new(TWO_GPUS);
        let healthy = sandbox.uuids()[7..].to_vec();
        for code in [4, 6, 9, 15, 18, 999] {
            sandbox.faults(&rule(&function, &format!("gpu = 0\nreturns = {code}")));
            sandbox
                .getgpu(["--count-free"])
                .run()
                .exits(0)
                .prints("7\n");
            for _ in 0..3 {
                let pick = sandbox.getgpu(["--no-reserve"]).run().line();
                assert!(healthy.contains(&pick), "{function} gives {code}: {pick}");
            }
        }
    }
}

#[test]
fn a_gpu_that_is_lost_half_way_leaves_the_others_in_use() {
    for from in [1, 2, 3, 5, 8] {
        let sandbox = Sandbox::new(TWO_GPUS);
        sandbox.faults(&rule("*", &format!("gpu = 1\nfrom = {from}\nreturns = 15")));
        let picks = until_none_is_free(&sandbox, &[]);
        assert!(
            sandbox.uuids()[..7].iter().all(|uuid| picks.contains(uuid)),
            "from call {from}: {picks:?}"
        );
    }
}

#[test]
fn when_every_gpu_is_sick_the_status_says_whether_waiting_helps() {
    for function in functions(&[]) {
        // What a device is doing may be told later; that it cannot be found will not
        // change by itself.
        let doing = function.contains("RunningProcesses") || function.contains("MemoryInfo");
        for code in [4, 6, 9, 15, 18, 999] {
            let sandbox = Sandbox::new("a100x1");
            sandbox.faults(&rule(&function, &format!("returns = {code}")));
            let outcome = sandbox.getgpu(PLAIN).run();
            match function.as_str() {
                // None of these is needed for an answer.
                "nvmlShutdown" | "nvmlSystemGetDriverVersion" | "nvmlDeviceGetName" => {
                    drop(outcome.line());
                }
                _ if doing => drop(outcome.refuses(
                    "getgpu",
                    1,
                    "no free device: 7 of 7 in use (unknown to NVML 7)",
                )),
                _ => drop(outcome.refuses("getgpu", 3, "")),
            }
        }
    }
}

#[test]
fn init_says_what_is_wrong_with_the_driver() {
    let sandbox = Sandbox::new("a100x1");
    for (code, line) in [
        (9, "getgpu: no NVIDIA driver on this node"),
        (18, "getgpu: NVML Init: "),
        (999, "(NVML code 999)"),
        (15, "(NVML code 15)"),
    ] {
        sandbox.faults(&rule("nvmlInit_v2", &format!("returns = {code}")));
        sandbox.getgpu(PLAIN).run().refuses("getgpu", 3, line);
        if code == 18 {
            sandbox
                .getgpu(PLAIN)
                .run()
                .mentions("getgpu: hint: the driver was updated while in use");
        }
        sandbox
            .getgpu(["--count-free"])
            .run()
            .refuses("getgpu", 3, line);
        sandbox.getgpu(["--list"]).run().refuses("getgpu", 3, line);
    }
}

#[test]
fn a_driver_without_a_gpu_has_an_empty_list() {
    let sandbox = Sandbox::new("a100x1");
    // NVML_ERROR_GPU_NOT_FOUND, as newer drivers say it; older ones count 0.
    for faults in [rule("nvmlInit_v2", "returns = 28"), String::new()] {
        if faults.is_empty() {
            sandbox.set_node("driver = '550.54.15'\n");
        }
        sandbox.faults(&faults);
        sandbox
            .getgpu(PLAIN)
            .run()
            .refuses("getgpu", 3, "getgpu: no NVIDIA GPU on this node");
        assert_eq!(listing::free_devices(&sandbox), "0");
        assert_eq!(
            sandbox
                .getgpu(["--list"])
                .run()
                .exits(0)
                .stdout
                .lines()
                .count(),
            1,
            "the heading alone"
        );
        let listing = sandbox
            .getgpu(["--list", "--json"])
            .run()
            .exits(0)
            .stdout
            .clone();
        assert!(listing.contains("\"devices\":[]"), "{listing}");
    }
}

#[test]
fn garbage_is_no_uuid() {
    let sandbox = Sandbox::new(TWO_GPUS);
    sandbox.faults(&rule("nvmlDeviceGetUUID", "gpu = 0\ndoes = 'garbage'"));
    assert_devices(&until_none_is_free(&sandbox, &[]), &sandbox.uuids()[7..]);
    sandbox
        .getgpu(["--list"])
        .run()
        .mentions("GPU 0: DeviceGetUUID: the answer is not a UUID");
    sandbox.faults(&rule("*", "does = 'garbage'"));
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 3, "getgpu: no device answers: ");
}

/// A Jetson Orin's GPU; CUDA_VISIBLE_DEVICES takes no such name.
#[test]
fn a_gpu_whose_uuid_has_no_prefix_is_named_and_stops_no_other() {
    let uuid = "54b6e1a2-1c0d-5f4e-8a7b-0123456789ab";
    let orin = format!("[[gpu]]\nmodel = 'T4'\nuuid = '{uuid}'\n");
    let driver = "driver = '540.3.0'\n";
    let said = format!(
        "GPU 0: DeviceGetUUID: {uuid}: a UUID without GPU-, as on a Jetson Orin: \
         CUDA_VISIBLE_DEVICES cannot name it, so it is not used"
    );
    let hint = "hint: a Jetson has one GPU: run programs there without getgpu and cudawrap";
    let alone = Sandbox::new(&format!("{driver}{orin}"));
    let refused = alone.getgpu(PLAIN).run();
    refused.refuses("getgpu", 3, &format!("no device can be used: {said}"));
    refused.mentions(hint);
    let refused = alone.command("cudawrap").args(["--", "true"]).run();
    refused.refuses("cudawrap", 125, &said);
    let check = alone.getgpu(["--check"]).run().stdout;
    assert!(
        check.contains(&said) && check.contains("a Jetson has one GPU"),
        "{check}"
    );
    let sandbox = Sandbox::new(&format!("{driver}{orin}[[gpu]]\nmodel = 'T4'\n"));
    assert_devices(&until_none_is_free(&sandbox, &[]), &sandbox.uuids()[1..]);
    sandbox.getgpu(["--list"]).run().exits(0).mentions(&said);
    sandbox
        .getgpu(["--explain", "--no-reserve"])
        .run()
        .mentions(&said);
}

#[test]
fn a_process_list_that_grows_at_every_look_is_read_all_the_same() {
    let sandbox = Sandbox::new("a100x1");
    sandbox.faults("processes_grow = 60");
    sandbox
        .getgpu(PLAIN)
        .run()
        .refuses("getgpu", 1, "7 of 7 in use");
}

#[test]
fn what_a_library_prints_does_not_reach_the_answer() {
    let sandbox = Sandbox::new("a100x1");
    sandbox.faults("banner = 'THIS IS A STUB'");
    assert!(
        sandbox
            .uuids()
            .contains(&sandbox.getgpu(PLAIN).run().line())
    );
    let list = sandbox.getgpu(["--list", "--json"]).run();
    assert!(list.stdout.starts_with('{') && !list.stdout.contains("STUB"));
}

#[test]
fn a_slow_node_costs_the_touch_of_one_gpu() {
    let sandbox = Sandbox::new("16x7");
    sandbox.faults("latency = { attach_ms = 400 }");
    let outcome = sandbox.getgpu(["--no-reserve"]).run();
    outcome.line();
    assert!(
        outcome.elapsed < Duration::from_millis(1200),
        "{:?}",
        outcome.elapsed
    );
}

#[test]
fn a_node_without_a_driver_is_told_from_one_without_the_library() {
    let sandbox = Sandbox::new("a100x1");
    let line = "getgpu: no NVIDIA driver on this node";
    let salloc = "getgpu: hint: you are in an allocation but not on its node: srun --pty bash";
    for arguments in [&[][..], &["--list"], &["--count-free"], &["0"]] {
        let login = || sandbox.getgpu(arguments).env_remove("SIM_NODE");
        login().run().exits(3).prints("").says(&[line]);
        login()
            .env("SLURM_JOB_ID", "7")
            .run()
            .exits(3)
            .prints("")
            .says(&[line, salloc]);
        login()
            .env("SLURM_JOB_ID", "7")
            .env("SLURM_PROCID", "0")
            .run()
            .exits(3)
            .prints("")
            .says(&[line]);
    }
    let bare = Sandbox::builder("a100x1").without_library().build();
    bare.getgpu(PLAIN).run().exits(3).prints("").says(&[line]);
    if skip::lacks(&[skip::Need::Mounts]) {
        return;
    }
    let script = format!("{DRIVER} && {NODES} && getgpu");
    let loaded = bare
        .command("unshare")
        .args(["-m", "sh", "-c", &script])
        .run();
    loaded.refuses("getgpu", 3, "getgpu: cannot load libnvidia-ml.so.1: ");
    loaded.mentions("getgpu: hint: the NVIDIA driver is loaded but its library is not found");
}

#[test]
fn the_setting_names_another_library() {
    let sandbox = Sandbox::new("a100x1");
    let library = sandbox.text("lib/libnvidia-ml.so.1");
    sandbox.set_settings(&format!("library = '{library}'"));
    sandbox
        .getgpu(["--no-reserve"])
        .env_remove("LD_LIBRARY_PATH")
        .run()
        .line();
    sandbox.set_settings("library = '/nonexistent/library.so'");
    sandbox.getgpu(PLAIN).run().exits(3).prints("");
}

/// What a machine says without a driver, or a container without GPUs, whatever file is
/// called libnvidia-ml.so.1 there.
#[test]
fn a_file_that_is_no_library_matters_only_where_there_is_a_gpu() {
    let damages = [Damage::Empty, Damage::Text, Damage::Elf32, Damage::Stub];
    for damage in damages {
        let sandbox = Sandbox::builder("a100x1").damaged(damage).build();
        let app = sandbox.file(
            "bin/app",
            "#!/bin/sh\necho ran $CUDA_VISIBLE_DEVICES\n",
            0o755,
        );
        std::fs::rename(&app, sandbox.path("bin/CUDAWRAP_app")).unwrap();
        std::os::unix::fs::symlink(sandbox.path("bin/cudawrap"), &app).unwrap();
        let line = "no NVIDIA driver on this node";
        sandbox
            .getgpu(PLAIN)
            .run()
            .exits(3)
            .prints("")
            .says(&[&format!("getgpu: {line}")]);
        sandbox
            .command(&app)
            .run()
            .exits(0)
            .prints("ran\n")
            .says(&[]);
        sandbox
            .command("cudawrap")
            .args(["--", "true"])
            .run()
            .refuses("cudawrap", 125, line);
        if skip::lacks(&[skip::Need::Mounts]) {
            continue;
        }
        let on = |nodes: &str, command: &str| {
            let script = format!("{DRIVER} && {nodes} && {command}");
            sandbox
                .command("unshare")
                .args(["-m", "sh", "-c", &script])
                .run()
        };
        let none = "no NVIDIA GPU on this node";
        on("true", "getgpu").refuses("getgpu", 3, none);
        on("true", "app").exits(0).prints("ran\n").says(&[]);
        on("true", "cudawrap -- true").refuses("cudawrap", 125, none);
        let hint = "hint: the NVIDIA driver is loaded but this file is not its library";
        on(NODES, "getgpu")
            .refuses("getgpu", 3, "cannot load libnvidia-ml.so.1: ")
            .mentions(&format!("getgpu: {hint}"));
        on(NODES, "app")
            .refuses("cudawrap", 125, "cannot load libnvidia-ml.so.1: ")
            .mentions(&format!("cudawrap: {hint}"));
    }
}

/// The variable that makes NVML list MPS locality domains (nvml.h 13.5) is not for the
/// process that asks NVML.
#[test]
fn devices_are_gpus_whatever_the_caller_wants_nvml_to_list() {
    let sandbox = Sandbox::new("a100x1");
    let plain = sandbox.getgpu(["-L"]).run().exits(0).stdout.clone();
    let domains = |command: harness::Command| command.env("NVML_MPS_DEVICE_ENUMERATION", "1").run();
    assert_eq!(domains(sandbox.getgpu(["-L"])).exits(0).stdout, plain);
    let uuid = domains(sandbox.getgpu(["--no-reserve"])).line();
    assert!(sandbox.uuids().contains(&uuid), "{uuid}");
    let ran = domains(sandbox.command("cudawrap").args([
        "--",
        "sh",
        "-c",
        "echo $NVML_MPS_DEVICE_ENUMERATION $CUDA_VISIBLE_DEVICES",
    ]));
    let (kept, uuid) = ran
        .line()
        .split_once(' ')
        .map(|(kept, uuid)| (kept.to_owned(), uuid.to_owned()))
        .unwrap();
    assert!(kept == "1" && sandbox.uuids().contains(&uuid), "{ran:#?}");
}
